//! Ends of lines in the heads and trailers of HTTP/1.1.
//!
//! hyper takes LF alone for the end of a line. Servers and proxies that do not would
//! find other requests in the same bytes.

use memchr::memchr;

/// Place in the requests of a connection. Bodies are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a head, or in the trailers of a chunked body.
    Lines(Line),
    /// Behind a head, whose request has noted its body by the next read.
    Behind,
    /// In a body, or a chunk with the CRLF behind it: the bytes to its end.
    Body(u64, Next),
    /// In the line before a chunk: its size so far, and true while digits come.
    Size(u64, bool),
    /// In bytes that are no valid HTTP/1.1.
    Unknown,
}

/// Line of a head or of trailers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// A line that is not empty has come: an empty one is the end.
    begun: bool,
    /// Bytes have come, other than a CR.
    filled: bool,
    /// The last byte was CR.
    cr: bool,
    trailers: bool,
}

/// Place behind bytes that are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Head,
    Chunk,
}

/// Body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

impl Default for Place {
    fn default() -> Self {
        Self::Lines(Line::default())
    }
}

impl Place {
    /// Moves on in `bytes`. Returns how many of them hyper may read now: those to the
    /// end of a head, or to a bare LF. `body` returns the body of the last head.
    pub(super) fn pass(&mut self, bytes: &[u8], body: impl Fn() -> Option<Framing>) -> Passed {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self {
                Self::Unknown => rest.len(),
                Self::Behind => {
                    *self = Self::after_head(body());
                    0
                }
                Self::Body(0, next) => {
                    *self = next.place();
                    0
                }
                Self::Body(left, _) => {
                    let skipped = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= skipped as u64;
                    skipped
                }
                Self::Size(..) => self.size(rest),
                Self::Lines(line) => match memchr(b'\n', rest) {
                    None => line.more(rest),
                    Some(end) if !line.ends_with_cr(&rest[..end]) => {
                        *self = Self::Unknown;
                        return Passed::BareLf(at + end);
                    }
                    Some(end) => match line.end(&rest[..end]) {
                        Ended::Line => end + 1,
                        Ended::Trailers => {
                            *self = Self::default();
                            end + 1
                        }
                        Ended::Head => {
                            *self = Self::Behind;
                            return Passed::All(at + end + 1);
                        }
                    },
                },
            };
        }
        Passed::All(at)
    }

    fn after_head(body: Option<Framing>) -> Self {
        match body {
            Some(Framing::Length(length)) => Self::Body(length, Next::Head),
            Some(Framing::Chunked) => Self::Size(0, true),
            // hyper has refused the head.
            None => Self::Unknown,
        }
    }

    /// Reads a piece of the line before a chunk, and returns its bytes. hyper refuses
    /// lines that are none.
    fn size(&mut self, rest: &[u8]) -> usize {
        for (at, byte) in rest.iter().enumerate() {
            let Self::Size(size, in_digits) = self else {
                return at;
            };
            match (char::from(*byte).to_digit(16), *byte) {
                (Some(digit), _) if *in_digits => match size.checked_mul(16) {
                    Some(more) => *size = more | u64::from(digit),
                    None => *self = Self::Unknown,
                },
                (_, b'\n') if *size == 0 => {
                    let line = Line {
                        begun: true,
                        trailers: true,
                        ..Line::default()
                    };
                    *self = Self::Lines(line);
                }
                (_, b'\n') => *self = Self::Body(size.saturating_add(CRLF), Next::Chunk),
                _ => *in_digits = false,
            }
        }
        rest.len()
    }
}

impl Next {
    fn place(self) -> Place {
        match self {
            Self::Head => Place::default(),
            Self::Chunk => Place::Size(0, true),
        }
    }
}

impl Line {
    /// Notes bytes without the end of the line, and returns their number.
    fn more(&mut self, bytes: &[u8]) -> usize {
        self.filled |= self.cr || bytes.len() > 1 || !bytes.ends_with(b"\r");
        self.cr = bytes.ends_with(b"\r");
        bytes.len()
    }

    fn ends_with_cr(&self, rest: &[u8]) -> bool {
        match rest.last() {
            Some(last) => *last == b'\r',
            None => self.cr,
        }
    }

    /// Notes the end of the line, behind its last bytes.
    fn end(&mut self, rest: &[u8]) -> Ended {
        let is_empty = !self.filled && rest.len() + usize::from(self.cr) == 1;
        let ended = match (is_empty, self.begun, self.trailers) {
            (true, true, true) => Ended::Trailers,
            (true, true, false) => Ended::Head,
            _ => Ended::Line,
        };
        *self = Self {
            begun: self.begun || !is_empty,
            filled: false,
            cr: false,
            trailers: self.trailers,
        };
        ended
    }
}

enum Ended {
    Line,
    Trailers,
    Head,
}

/// Bytes that hyper may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// Number of bytes without a bare LF.
    All(usize),
    /// Number of bytes before a bare LF.
    BareLf(usize),
}

const CRLF: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes pieces of `cut` bytes. Returns the bytes of heads and bodies up to each
    /// end of a head, and whether a bare LF came.
    fn pass(bytes: &[u8], cut: usize, bodies: &[Framing]) -> (Vec<usize>, bool) {
        let (mut place, mut ends, mut done) = (Place::default(), Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            let mut rest = piece;
            while !rest.is_empty() {
                let passed = place.pass(rest, || bodies.get(ends.len() - 1).copied());
                let Passed::All(passed) = passed else {
                    return (ends, true);
                };
                assert!(passed > 0);
                (rest, done) = (&rest[passed..], done + passed);
                if place == Place::Behind {
                    ends.push(done);
                }
            }
        }
        (ends, false)
    }

    #[test]
    fn heads_end_however_the_bytes_are_cut() {
        let (get, post) = ("GET / HTTP/1.1\r\nA: b\r\n\r\n", "POST / HTTP/1.1\r\n\r\n");
        let chunks = "3;x=y\r\n\n\n\n\r\n0A\r\n0123456\n\r\n\r\n0\r\nT: u\r\n\r\n";
        let bytes = format!("\r\n{get}{post}a\n\r\n\r\n{post}{chunks}{get}{post}0\r\n\r\n{get}");
        let bodies = [
            Framing::Length(0),
            Framing::Length(6),
            Framing::Chunked,
            Framing::Length(0),
            Framing::Chunked,
        ];
        let mut expected = vec![2 + get.len()];
        for more in [
            post.len(),
            6 + post.len(),
            chunks.len() + get.len(),
            post.len(),
            5 + get.len(),
        ] {
            expected.push(expected.last().unwrap() + more);
        }
        for cut in 1..bytes.len() {
            assert_eq!(
                pass(bytes.as_bytes(), cut, &bodies),
                (expected.clone(), false),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_bare_lf_is_found_however_the_bytes_are_cut() {
        let chunked = "POST / HTTP/1.1\r\n\r\n1\r\nx\r\n0\r\n";
        for bytes in [
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nA: b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n\n",
            "GET / HTTP/1.1\r\nA: b\r\r\n\n",
            &format!("{chunked}T: u\n\r\n"),
            &format!("{chunked}\n"),
            &format!("{chunked}\r\nGET / HTTP/1.1\n\r\n"),
        ] {
            for cut in 1..=bytes.len() {
                let (_, is_bare) = pass(bytes.as_bytes(), cut, &[Framing::Chunked]);
                assert!(is_bare, "{bytes:?} {cut}");
            }
        }
    }

    #[test]
    fn a_line_that_is_no_size_ends_the_search() {
        for line in ["fffffffffffffffff\r\n", "ffffffffffffffff0\r\n"] {
            let bytes = format!("POST / HTTP/1.1\r\n\r\n{line}\n\n");
            let (_, is_bare) = pass(bytes.as_bytes(), bytes.len(), &[Framing::Chunked]);
            assert!(!is_bare);
        }
    }
}
