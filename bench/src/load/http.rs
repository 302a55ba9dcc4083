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
    let length = head
        .length
        .ok_or(Failure::Response("no Content-Length in the response"))?;
    let mut received = buffer.len() - start;
    while received < length {
        buffer.clear();
        received += read_more(stream, buffer).await?;
    }
    if received > length {
        return Err(Failure::Response("more bytes than the Content-Length"));
    }
    Ok((begun, length))
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
    length: Option<usize>,
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
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    Ok(Some((Head { status, length }, end + 4)))
}

const BAD_HEAD: Failure = Failure::Response("no HTTP/1.1 response");
const HEAD_LIMIT: usize = 16 * 1024;
/// Largest TLS record: a read returns one at most.
const READ_SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
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
