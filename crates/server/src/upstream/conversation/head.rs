//! Head of an answer of a script (RFC 3875, section 6.2).

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};

/// Collects the head.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Head {
    received: BytesMut,
    /// Bytes that hold no end of the head.
    searched: usize,
}

impl Head {
    /// Adds output. Returns the head and what came behind it, once it is complete.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(in crate::upstream) fn add(
        &mut self,
        output: &[u8],
    ) -> Result<Option<(Response<()>, Bytes)>, &'static str> {
        self.received.extend_from_slice(output);
        let end = self.end();
        if end.unwrap_or(self.received.len()) > MAX_HEAD {
            return Err("its head is longer than 64 KiB");
        }
        let Some(end) = end else { return Ok(None) };
        let head = self.received.split_to(end);
        let rest = std::mem::take(&mut self.received).freeze();
        parse(&head).map(|response| Some((response, rest)))
    }

    /// Returns where the first empty line ends. Each byte is searched once: a head may come
    /// byte by byte.
    fn end(&mut self) -> Option<usize> {
        let from = self.searched.saturating_sub(2);
        let bytes = &self.received[..];
        let mut ends = memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at);
        let end = ends.find_map(|at| match bytes.get(at + 1..) {
            Some([b'\n', ..]) => Some(at + 2),
            Some([b'\r', b'\n', ..]) => Some(at + 3),
            // An empty line at the beginning.
            _ => (at == 0 || bytes.starts_with(b"\r\n") && at == 1).then_some(at + 1),
        });
        self.searched = bytes.len();
        end
    }
}

/// Reads a whole head. `Status` is no field of HTTP, and those that other servers take as
/// orders are for them.
fn parse(head: &[u8]) -> Result<Response<()>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let (_, fields) = match httparse::parse_headers(head, &mut fields) {
        Ok(httparse::Status::Complete(read)) => read,
        Ok(httparse::Status::Partial) => return Err("its head is no list of fields"),
        Err(httparse::Error::TooManyHeaders) => return Err("its head has over 100 fields"),
        Err(_) => return Err("its head has a line that is no field"),
    };
    if fields.is_empty() {
        return Err("it has no head");
    }
    let mut response = Response::new(());
    let mut status = None;
    for field in fields {
        if field.name.eq_ignore_ascii_case("status") {
            status = Some(status_of(field.value)?);
            continue;
        }
        if OF_OTHERS
            .iter()
            .any(|name| field.name.eq_ignore_ascii_case(name))
        {
            continue;
        }
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err("its head has a line that is no field");
        };
        response.headers_mut().append(name, value);
    }
    let location = response.headers().get(LOCATION);
    let by_location = location.is_some();
    if let Some(path) = location.and_then(local)
        && status.is_none()
        && response.headers().len() == 1
    {
        response.extensions_mut().insert(LocalRedirect(path));
    }
    *response.status_mut() = status.unwrap_or(match by_location {
        true => StatusCode::FOUND,
        false => StatusCode::OK,
    });
    Ok(response)
}

/// Path and query from which the server is to answer, of an answer that says no more than
/// that (RFC 3875, section 6.2.2).
#[derive(Clone, Debug)]
pub(crate) struct LocalRedirect(pub(crate) Box<str>);

/// Returns a location on this host: two slashes name another one.
fn local(location: &HeaderValue) -> Option<Box<str>> {
    let location = location.to_str().ok()?;
    let is_local = location.starts_with('/') && !location.starts_with("//");
    is_local.then(|| location.into())
}

/// Reads `404 Not Found`. No script switches protocols, nor answers before its answer.
fn status_of(value: &[u8]) -> Result<StatusCode, &'static str> {
    let code = value
        .get(..3)
        .filter(|_| !value.get(3).is_some_and(u8::is_ascii_digit));
    code.and_then(|code| StatusCode::from_bytes(code).ok())
        .filter(|status| (200..600).contains(&status.as_u16()))
        .ok_or("its Status is none from 200 to 599")
}

/// Fields by which a script tells nginx, Apache or lighttpd to send a file instead.
const OF_OTHERS: [&str; 2] = ["x-accel-redirect", "x-sendfile"];

const MAX_HEAD: usize = 64 << 10;
const MAX_FIELDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a text in pieces of so many bytes.
    fn added(text: &str, cut: usize) -> Result<Option<(Response<()>, String)>, &'static str> {
        let mut head = Head::default();
        let mut pieces = text.as_bytes().chunks(cut);
        while let Some(piece) = pieces.next() {
            if let Some((response, rest)) = head.add(piece)? {
                let mut body = rest.to_vec();
                body.extend(pieces.flatten());
                return Ok(Some((response, String::from_utf8(body).unwrap())));
            }
        }
        Ok(None)
    }

    #[test]
    fn heads_are_read_however_they_come() {
        for (text, status, fields, body) in [
            ("Content-Type: text/html\r\n\r\nbody", 200, 1, "body"),
            ("Content-Type: a/b\n\nb\n\nc", 200, 1, "b\n\nc"),
            ("Status: 404 Not Found\r\nA: 1\r\nA: 2\r\n\r\n", 404, 2, ""),
            ("status: 503\nA: b\n\r\nx", 503, 1, "x"),
            ("Location: https://a.example/\r\n\r\n", 302, 1, ""),
            ("Location: /a\r\nStatus: 201 Created\r\n\r\n", 201, 1, ""),
            (
                "X-Sendfile: /etc/passwd\r\nX-Accel-Redirect: /a\r\n\r\nx",
                200,
                0,
                "x",
            ),
        ] {
            for cut in [1, 2, 3, usize::MAX] {
                let (response, rest) = added(text, cut).unwrap().expect(text);
                assert_eq!(response.status().as_u16(), status, "{text:?} {cut}");
                assert_eq!(response.headers().len(), fields, "{text:?} {cut}");
                assert_eq!(rest, body, "{text:?} {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_head_is_an_error() {
        let long = format!("A: {}\n\n", "b".repeat(64 << 10));
        let endless = "A: b\n".repeat(14_000);
        let many = format!("{}\n", "A: b\n".repeat(101));
        for (text, why) in [
            ("\r\nbody", "no head"),
            ("\nbody", "no head"),
            // The CR could begin a second end of line, which has not come.
            ("\n\r", "no head"),
            ("\r\n\r", "no head"),
            ("<html>\n\n", "no field"),
            ("A : b\n\n", "no field"),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "no field"),
            ("Status: 99\n\n", "Status"),
            ("Status: 101 Switching Protocols\n\n", "Status"),
            ("Status: 2000\n\n", "Status"),
            ("Status: abc\n\n", "Status"),
            (&long, "64 KiB"),
            (&endless, "64 KiB"),
            (&many, "100 fields"),
        ] {
            for cut in [1, 1000] {
                let wrong = added(text, cut).unwrap_err();
                assert!(wrong.contains(why), "{wrong}: {}", &text[..8]);
            }
        }
        assert!(added("A: b\nC: d\n", 1).unwrap().is_none());
    }
}
