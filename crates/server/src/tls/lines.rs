//! Lines in the heads, chunks and trailers of HTTP/1.1.
//!
//! hyper takes LF alone for the end of a line, sizes of chunks with any number of
//! digits, and drops `Content-Length` beside `Transfer-Encoding`. Servers and proxies
//! that do not would find other requests in the same bytes.

use memchr::memchr;

use crate::limits::timeouts::Framing;

/// State of the parser of a connection's requests. Bodies are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineParser {
    /// In a head, or in the trailers of a chunked body.
    Lines(Line),
    /// Behind a head, whose request has noted its body by the next read.
    Behind,
    /// In a body, or a chunk with the CRLF behind it: the bytes to its end.
    Body(u64, Next),
    /// In the line before a chunk.
    Size(SizeLine),
    /// In bytes that are no valid HTTP/1.1.
    Unknown,
}

/// Line before a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeLine {
    /// Size of the chunk, as far as its digits have come.
    size: u64,
    /// Bytes of the line so far.
    length: u16,
    /// True if all bytes so far were digits.
    in_digits: bool,
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
    /// Bytes of [`LENGTH`] that the line begins with, or [`OTHER`].
    named: u8,
    /// A line of the head began with [`LENGTH`].
    has_length: bool,
}

/// LineParser behind bytes that are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Head,
    Chunk,
}

impl Default for LineParser {
    fn default() -> Self {
        Self::Lines(Line::default())
    }
}

impl LineParser {
    /// Moves on in `bytes`. Returns how many of them hyper may read now: those to the
    /// end of a head, or to a byte that is refused. `body` returns the body of the last
    /// head.
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
                    *self = next.parser();
                    0
                }
                Self::Body(left, _) => {
                    let skipped = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= skipped as u64;
                    skipped
                }
                Self::Size(..) => match self.size(rest) {
                    Ok(read) => read,
                    Err(before) => {
                        *self = Self::Unknown;
                        return Passed::Refused(at + before);
                    }
                },
                Self::Lines(line) => match memchr(b'\n', rest) {
                    None => line.more(rest),
                    Some(end) if !line.ends_with_cr(&rest[..end]) => {
                        *self = Self::Unknown;
                        return Passed::Refused(at + end);
                    }
                    Some(end) => match line.end(&rest[..end]) {
                        Ended::Line => end + 1,
                        Ended::Trailers => {
                            *self = Self::default();
                            end + 1
                        }
                        Ended::Head => {
                            let has_length = line.has_length;
                            *self = Self::Behind;
                            return Passed::Head(at + end + 1, has_length);
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
            Some(Framing::Chunked) => Self::Size(SizeLine::BEGIN),
            // hyper has refused the head.
            None => Self::Unknown,
        }
    }

    /// Reads a piece of the line before a chunk, and returns its bytes. hyper refuses
    /// other lines that are none.
    ///
    /// # Errors
    /// The bytes before one that makes the line too long.
    fn size(&mut self, rest: &[u8]) -> Result<usize, usize> {
        for (at, byte) in rest.iter().enumerate() {
            let Self::Size(line) = self else {
                return Ok(at);
            };
            if *byte == b'\n' {
                *self = line.end();
            } else if !line.push(*byte) {
                return Err(at);
            }
        }
        Ok(rest.len())
    }
}

impl SizeLine {
    const BEGIN: Self = Self {
        size: 0,
        length: 0,
        in_digits: true,
    };

    /// Notes a byte; false if the line is too long.
    fn push(&mut self, byte: u8) -> bool {
        let digit = char::from(byte).to_digit(16).filter(|_| self.in_digits);
        let most = match digit {
            Some(digit) => {
                self.size = self.size << 4 | u64::from(digit);
                MAX_DIGITS
            }
            None => {
                self.in_digits = false;
                MAX_SIZE_LINE
            }
        };
        self.length += 1;
        self.length <= most
    }

    fn end(self) -> LineParser {
        if self.size > 0 {
            return LineParser::Body(self.size.saturating_add(CRLF), Next::Chunk);
        }
        LineParser::Lines(Line {
            begun: true,
            trailers: true,
            ..Line::default()
        })
    }
}

impl Next {
    fn parser(self) -> LineParser {
        match self {
            Self::Head => LineParser::default(),
            Self::Chunk => LineParser::Size(SizeLine::BEGIN),
        }
    }
}

impl Line {
    /// Notes bytes without the end of the line, and returns their number.
    fn more(&mut self, bytes: &[u8]) -> usize {
        self.filled |= self.cr || bytes.len() > 1 || !bytes.ends_with(b"\r");
        self.cr = bytes.ends_with(b"\r");
        self.name(bytes);
        bytes.len()
    }

    /// Compares the beginning of the line with [`LENGTH`].
    fn name(&mut self, bytes: &[u8]) {
        let Some(expected) = LENGTH.get(usize::from(self.named)..) else {
            return;
        };
        let count = expected.len().min(bytes.len());
        self.named = match expected[..count].eq_ignore_ascii_case(&bytes[..count]) {
            // The two numbers are at most 15.
            true => self.named + count as u8,
            false => OTHER,
        };
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
        self.name(rest);
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
            named: 0,
            has_length: self.has_length || usize::from(self.named) == LENGTH.len(),
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
    /// Number of bytes.
    All(usize),
    /// Number of bytes to the end of a head, and whether that has `Content-Length`.
    Head(usize, bool),
    /// Number of bytes before a bare LF, or before one that makes the line before a
    /// chunk too long.
    Refused(usize),
}

const CRLF: u64 = 2;
const LENGTH: &[u8] = b"content-length:";
/// Mark of lines that do not begin with [`LENGTH`].
const OTHER: u8 = u8::MAX;
/// Digits of a chunk's size: with more, servers with other integers read other sizes.
const MAX_DIGITS: u16 = 16;
/// Bytes of the line before a chunk. hyper bounds its extensions, but not its spaces.
const MAX_SIZE_LINE: u16 = 4096;

#[cfg(test)]
mod tests;
