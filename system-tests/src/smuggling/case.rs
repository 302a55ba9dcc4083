//! Case: bytes that servers may read differently, and how they may be read.

/// Request that may be read in several ways. In its texts `{id}` and `{host}` stand for
/// the case's own id and the host; each character is one byte.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) request: Request,
    /// Method that an upstream may see.
    pub(super) method: &'static str,
    pub(super) expect: Expect,
    /// Field that an upstream must see with this value alone.
    pub(super) demand: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    /// All bytes of an HTTP/1.1 request
    Text(String),
    /// Field block and further frames of an HTTP/2 stream
    Stream(Stream),
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) fields: Vec<(String, String)>,
    /// Frames behind the fields; the last one ends the stream.
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Data(String),
    Trailers(Vec<(String, String)>),
}

/// How a case may end.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    /// No upstream gets a whole request.
    Refused,
    /// The upstream gets one request with this body. Without such cases, a server that
    /// refuses everything would pass.
    Served(String),
    /// Refused, or served with one of these bodies.
    Either(Vec<String>),
}

impl Case {
    /// Makes a case of HTTP/1.1.
    pub(super) fn text(group: &str, what: &str, request: String, expect: Expect) -> Self {
        Self {
            name: format!("{group}: {}", what.escape_debug()),
            request: Request::Text(request),
            method: "POST",
            expect,
            demand: None,
        }
    }

    /// Makes a case of HTTP/2.
    pub(super) fn stream(what: &str, stream: Stream, expect: Expect) -> Self {
        Self {
            name: format!("HTTP/2: {}", what.escape_debug()),
            request: Request::Stream(stream),
            method: "POST",
            expect,
            demand: None,
        }
    }

    pub(super) fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(super) fn demand(self, name: &'static str, value: &'static str) -> Self {
        Self {
            demand: Some((name, value)),
            ..self
        }
    }
}

impl Expect {
    pub(super) fn either(bodies: &[&str]) -> Self {
        Self::Either(bodies.iter().map(|&body| body.to_owned()).collect())
    }
}

/// Puts id and host into a text, and returns its bytes.
pub(super) fn fill(text: &str, id: &str, host: &str) -> Vec<u8> {
    let text = text.replace("{id}", id).replace("{host}", host);
    text.chars().map(byte).collect()
}

/// Each character of a case is below 256.
fn byte(character: char) -> u8 {
    u8::try_from(u32::from(character)).unwrap_or(b'?')
}

/// Returns the id of the case with this number. All have one length, as do all hosts,
/// for the sake of lengths in cases.
pub(super) fn id(number: usize) -> String {
    format!("c{number:05}x")
}

/// Returns the length of a text once it is filled.
pub(super) fn length(text: &str) -> usize {
    fill(text, &id(0), HOSTS[0]).len()
}

/// Hosts of the upstreams: nginx, Node, Node that takes more, and one that lies.
pub(super) const HOSTS: [&str; 4] = ["nginx.test", "nodes.test", "loose.test", "liars.test"];
/// Host whose requests an honest FastCGI server gets, and one whose server lies.
pub(super) const SCRIPTS: &str = "fcgis.test";
pub(super) const SCRIPT_LIAR: &str = "fakes.test";
/// Host whose requests CGI programs get.
pub(super) const PROGRAMS: &str = "progs.test";
/// Host whose FastCGI server gets requests with a password alone.
pub(super) const LOCKED: &str = "locks.test";
/// Host that is served over plain HTTP, with the upstream of the first of [`HOSTS`].
pub(super) const PLAIN: &str = "plain.test";
/// Host that answers as the first of [`HOSTS`].
pub(super) const ALIAS: &str = "alias.test";
/// Host of another tenant, which answers 404.
pub(super) const STRANGER: &str = "other.test";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ids_and_hosts_have_one_length() {
        let lengths = HOSTS.map(str::len);
        assert_eq!(lengths, [10; 4]);
        let more = [SCRIPTS, SCRIPT_LIAR, PROGRAMS, LOCKED, PLAIN, ALIAS].map(str::len);
        assert_eq!(more, [10; 6]);
        assert_eq!(id(0).len(), id(99_999).len());
        assert_eq!(fill("{id}\u{ff}{host}", "a", "b"), b"a\xffb");
    }
}
