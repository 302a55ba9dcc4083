//! HTTP/1.1 client, just enough to tell whether a request was answered.

use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::failure::Failure;

/// Returns the bytes of a request for one host. `fields` are further lines of its head.
pub(crate) fn request(path: &str, host: &str, connection: Connection, fields: &str) -> Vec<u8> {
    let close = match connection {
        Connection::Close => "Connection: close\r\n",
        Connection::KeepAlive => "",
    };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}{fields}\r\n").into_bytes()
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Connection {
    Close,
    KeepAlive,
}

/// Reads one response, up to the last byte of its body. Its status must be 200. Returns when
/// its first bytes came, and the length of the body.
pub(crate) async fn read_response<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Result<(Instant, usize), Failure> {
    buffer.clear();
    read_more(stream, buffer).await?;
    let begun = Instant::now();
    let (head, start) = loop {
        if let Some(found) = parse_head(buffer)? {
            break found;
        }
        if buffer.len() > HEAD_LIMIT {
            return Err(Failure::Response("head too long"));
        }
        read_more(stream, buffer).await?;
    };
    if head.status != 200 {
        return Err(Failure::Status(head.status));
    }
    let length = match head.framing {
        Some(Framing::Length(length)) => read_length(stream, buffer, start, length).await?,
        Some(Framing::Chunked) => read_chunks(stream, buffer, start).await?,
        None => return Err(Failure::Response("no Content-Length and no chunks")),
    };
    Ok((begun, length))
}

/// Reads a body of this length, which begins at `start` of the buffer.
async fn read_length<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    start: usize,
    length: usize,
) -> Result<usize, Failure> {
    let mut received = buffer.len() - start;
    while received < length {
        buffer.clear();
        received += read_more(stream, buffer).await?;
    }
    if received > length {
        return Err(Failure::Response("more bytes than the Content-Length"));
    }
    Ok(length)
}

/// Reads a chunked body without trailers, which begins at `start` of the buffer. Returns the
/// length of all chunks.
async fn read_chunks<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    start: usize,
) -> Result<usize, Failure> {
    buffer.drain(..start);
    let mut length = 0;
    loop {
        let line = loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                break end + 1;
            }
            if buffer.len() > HEAD_LIMIT {
                return Err(BAD_CHUNK);
            }
            read_more(stream, buffer).await?;
        };
        let size = chunk_size(&buffer[..line]).ok_or(BAD_CHUNK)?;
        buffer.drain(..line);
        length += size;
        let mut left = size + b"\r\n".len();
        while left > buffer.len() {
            left -= buffer.len();
            buffer.clear();
            read_more(stream, buffer).await?;
        }
        buffer.drain(..left);
        if size == 0 {
            let is_end = buffer.is_empty();
            let more = Failure::Response("more bytes than the chunks");
            return is_end.then_some(length).ok_or(more);
        }
    }
}

/// Returns the size in the line before a chunk.
fn chunk_size(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let digits = text.split(';').next()?.trim();
    u32::from_str_radix(digits, 16).ok()?.try_into().ok()
}

/// Reads until the peer ends the connection.
///
/// A missing close_notify is no failure here: the length of the body shows
/// whether it is complete.
pub(crate) async fn read_to_end<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) {
    loop {
        buffer.clear();
        if !matches!(stream.read_buf(buffer).await, Ok(1..)) {
            return;
        }
    }
}

async fn read_more<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Result<usize, Failure> {
    buffer.reserve(READ_SIZE);
    match stream.read_buf(buffer).await {
        Ok(0) => Err(Failure::Response("closed before the response was complete")),
        Ok(read) => Ok(read),
        Err(error) => Err(Failure::Exchange(error)),
    }
}

#[derive(Debug, Eq, PartialEq)]
struct Head {
    status: u16,
    /// Framing of the body; none if the head does not name it.
    framing: Option<Framing>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// Returns the head and the index of the body's first byte; None before the
/// blank line.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Failure> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| BAD_HEAD)?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|line| line.get(..3))
        .and_then(|digits| digits.parse().ok())
        .ok_or(BAD_HEAD)?;
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let framing = fields.find_map(|(name, value)| {
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => value.parse().ok().map(Framing::Length),
            "transfer-encoding" if value == "chunked" => Some(Framing::Chunked),
            _ => None,
        }
    });
    Ok(Some((Head { status, framing }, end + 4)))
}

const BAD_HEAD: Failure = Failure::Response("no HTTP/1.1 response");
const BAD_CHUNK: Failure = Failure::Response("a chunk without its size");
const HEAD_LIMIT: usize = 16 * 1024;
/// Largest TLS record: a read returns one at most.
const READ_SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn further_fields_end_the_head() {
        let request = request("/", "a", Connection::KeepAlive, "X-A: b\r\n");
        assert_eq!(request, b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n");
    }

    #[tokio::test]
    async fn complete_responses_pass() {
        let mut stream = &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..];
        let read = read_response(&mut stream, &mut Vec::new()).await;
        assert_eq!(read.unwrap().1, 5);
    }

    /// The peer sends as many bytes at a time as the pipe holds.
    async fn read_by(pipe: usize, response: &str) -> Result<usize, Failure> {
        let (mut client, mut server) = duplex(pipe);
        let (read, _) = tokio::join!(
            async {
                let read = read_response(&mut client, &mut Vec::new()).await;
                drop(client);
                read
            },
            async {
                let sent = server.write_all(response.as_bytes()).await;
                drop(server);
                sent
            },
        );
        read.map(|(_, length)| length)
    }

    #[tokio::test]
    async fn chunks_are_counted_however_they_come() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for pipe in [1, 2, 7, 1 << 16] {
            for (chunks, length) in [
                ("0\r\n\r\n", 0),
                ("5\r\nhello\r\n0\r\n\r\n", 5),
                ("5;a=b\r\nhello\r\n0F\r\n and more bytes\r\n0\r\n\r\n", 20),
                ("2\r\n\r\n\r\n0\r\n\r\n", 2),
            ] {
                let read = read_by(pipe, &format!("{head}{chunks}")).await;
                assert_eq!(read.unwrap(), length, "{chunks:?}");
            }
            for (chunks, reason) in [
                ("", "closed before"),
                ("5\r\nhello\r\n", "closed before"),
                ("5\r\nhello\r\n0\r\n", "closed before"),
                ("hello\r\n", "a chunk without"),
                ("\r\n", "a chunk without"),
            ] {
                let read = read_by(pipe, &format!("{head}{chunks}")).await;
                let text = read.unwrap_err().kind();
                assert!(text.contains(reason), "{chunks:?}: {text}");
            }
        }
        let more = format!("{head}0\r\n\r\nmore");
        let text = read_by(1 << 16, &more).await.unwrap_err().kind();
        assert!(text.contains("more bytes"), "{text}");
    }

    #[tokio::test]
    async fn everything_else_is_refused() {
        for (response, reason) in [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
                "closed before",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
                "more bytes",
            ),
            ("HTTP/1.1 200 OK\r\n\r\nhello", "no Content-Length"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "no HTTP/1.1"),
        ] {
            let mut stream = response.as_bytes();
            let failure = read_response(&mut stream, &mut Vec::new()).await;
            let text = failure.unwrap_err().kind();
            assert!(text.contains(reason), "{response:?}: {text}");
        }
    }
}
