//! Answers of HTTP/1.1 as a strict client reads them.

/// Answer of one request, as far as it has come.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) complete: bool,
    /// Set for a stream of HTTP/2 that was reset.
    pub(crate) reset: bool,
}

/// Parses all answers of a connection but informational ones. `heads` tells which
/// requests were HEAD, by their order. Stops at what is no answer.
pub(crate) fn parse(mut bytes: &[u8], heads: &[bool]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = split(bytes, b"\r\n\r\n") {
        let Some(head) = Head::parse(head) else { break };
        bytes = rest;
        if (100..200).contains(&head.status) && head.status != 101 {
            continue;
        }
        let is_head = heads.get(answers.len()).copied().unwrap_or_default();
        let (body, complete, rest) = if is_head || matches!(head.status, 204 | 304) {
            (Vec::new(), true, bytes)
        } else {
            head.body(bytes)
        };
        bytes = rest;
        answers.push(Answer {
            status: head.status,
            body,
            complete,
            reset: false,
        });
        if !complete {
            break;
        }
    }
    answers
}

struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
        let mut head = Self {
            status: status.parse().ok()?,
            length: None,
            chunked: false,
        };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.trim().parse().ok(),
                "transfer-encoding" => head.chunked = true,
                _ => {}
            }
        }
        Some(head)
    }

    /// Returns the body, whether it is complete, and what follows.
    fn body<'a>(&self, bytes: &'a [u8]) -> (Vec<u8>, bool, &'a [u8]) {
        if self.chunked {
            return chunks(bytes);
        }
        match self.length {
            Some(length) if length <= bytes.len() => {
                (bytes[..length].to_vec(), true, &bytes[length..])
            }
            // Without a length, the body ends with the connection.
            _ => (bytes.to_vec(), false, &[]),
        }
    }
}

fn chunks(mut bytes: &[u8]) -> (Vec<u8>, bool, &[u8]) {
    let mut body = Vec::new();
    while let Some((line, rest)) = split(bytes, b"\r\n") {
        let size = std::str::from_utf8(line).ok();
        let Some(size) = size.and_then(|size| usize::from_str_radix(size, 16).ok()) else {
            break;
        };
        if size == 0 {
            // Trailers end with an empty line.
            let mut rest = rest;
            while let Some((line, after)) = split(rest, b"\r\n") {
                rest = after;
                if line.is_empty() {
                    return (body, true, rest);
                }
            }
            break;
        }
        let Some(data) = rest.get(..size + 2) else {
            break;
        };
        body.extend(&data[..size]);
        bytes = &rest[size + 2..];
    }
    (body, false, &[])
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = bytes.windows(at.len()).position(|part| part == at)?;
    Some((&bytes[..found], &bytes[found + at.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_follow_each_other() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n\
            HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nHTTP/1.1 421 x\r\nContent-Length: 5\r\n\r\nab";
        let answers = parse(bytes, &[false, false, true]);
        let told: Vec<_> = answers
            .iter()
            .map(|one| (one.status, one.body.as_slice(), one.complete))
            .collect();
        assert_eq!(
            told,
            [
                (200, &b"ok"[..], true),
                (200, b"abc", true),
                (404, b"", true),
                (421, b"ab", false),
            ]
        );
        assert!(parse(b"garbage\r\n\r\n", &[]).is_empty());
    }
}
