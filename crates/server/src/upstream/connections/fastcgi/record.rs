//! Records of FastCGI (FastCGI specification 1.0, section 3.3).

use bytes::{Buf as _, Bytes, BytesMut};

/// Writes the record that begins a request of the role Responder. With `keep`, the server
/// leaves the connection open after it.
pub(super) fn begin(out: &mut Vec<u8>, keep: bool) {
    out.extend(head(BEGIN_REQUEST, 8));
    out.extend([0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
}

/// Writes parameters, as [`pair`] encodes them, and the end of their stream.
pub(super) fn params(out: &mut Vec<u8>, encoded: &[u8]) {
    stream(out, PARAMS, encoded);
    out.extend(head(PARAMS, 0));
}

/// Writes a piece of the request's body; an empty one ends the stream.
pub(super) fn input(out: &mut Vec<u8>, piece: &[u8]) {
    match piece.is_empty() {
        true => out.extend(head(STDIN, 0)),
        false => stream(out, STDIN, piece),
    }
}

/// Encodes a name and its value (section 3.4).
pub(in crate::upstream) fn pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, value] {
        match u8::try_from(part.len()) {
            Ok(length) if length < LONG => out.push(length),
            _ => {
                // No head of a request has 2 GiB.
                let length = u32::try_from(part.len()).unwrap_or(u32::MAX) | 1 << 31;
                out.extend(length.to_be_bytes());
            }
        }
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn stream(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    for part in content.chunks(usize::from(u16::MAX)) {
        out.extend(head(kind, u16::try_from(part.len()).unwrap_or(u16::MAX)));
        out.extend_from_slice(part);
    }
}

fn head(kind: u8, length: u16) -> [u8; HEAD] {
    let [high, low] = length.to_be_bytes();
    [VERSION, kind, 0, REQUEST, high, low, 0, 0]
}

/// Piece of what a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Piece {
    /// Bytes of the answer.
    Output(Bytes),
    /// Bytes of standard error.
    Error(Bytes),
    /// End of the request, with its protocol status.
    End(u8),
}

/// Reads the records of one request.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Parser {
    kind: u8,
    /// Bytes of the record's content that have not come.
    left: usize,
    padding: usize,
    pub(super) has_ended: bool,
    ended_streams: u8,
}

impl Parser {
    /// Takes the next piece out of what was received; none if more must come. Content of
    /// streams is not awaited whole.
    ///
    /// # Errors
    /// Says how the server breaks the protocol.
    pub(in crate::upstream) fn next(
        &mut self,
        received: &mut BytesMut,
    ) -> Result<Option<Piece>, &'static str> {
        loop {
            if self.left == 0 {
                let skipped = self.padding.min(received.len());
                received.advance(skipped);
                self.padding -= skipped;
                if self.padding > 0 || received.len() < HEAD {
                    return Ok(None);
                }
                self.read_head(received)?;
            }
            match self.kind {
                // With its padding: nothing may come behind it.
                END_REQUEST if received.len() < END + self.padding => return Ok(None),
                END_REQUEST => {
                    let status = received[4];
                    received.advance(END + self.padding);
                    (self.left, self.padding, self.has_ended) = (0, 0, true);
                    return Ok(Some(Piece::End(status)));
                }
                // An empty record ends its stream.
                _ if self.left == 0 => {}
                _ if received.is_empty() => return Ok(None),
                kind => {
                    let piece = received.split_to(self.left.min(received.len())).freeze();
                    self.left -= piece.len();
                    return Ok(Some(match kind {
                        STDOUT => Piece::Output(piece),
                        _ => Piece::Error(piece),
                    }));
                }
            }
        }
    }

    fn read_head(&mut self, received: &mut BytesMut) -> Result<(), &'static str> {
        let [version, kind, id_high, id, high, low, padding, _] = received[..HEAD] else {
            unreachable!("the slice has eight bytes");
        };
        if version != VERSION {
            return Err("a record is not of version 1 of FastCGI");
        }
        if self.has_ended {
            return Err("a record came behind the end of the request");
        }
        if (id_high, id) != (0, REQUEST) {
            return Err("a record has an id that no request has");
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let stream = match kind {
            END_REQUEST if length == END => 0,
            END_REQUEST => return Err("the end of the request has a wrong length"),
            STDOUT => 1,
            STDERR => 2,
            _ => return Err("a record has a type that no server sends"),
        };
        if self.ended_streams & stream != 0 {
            return Err("a record came behind the end of its stream");
        }
        if length == 0 {
            self.ended_streams |= stream;
        }
        received.advance(HEAD);
        (self.kind, self.left, self.padding) = (kind, length, padding.into());
        Ok(())
    }
}

const VERSION: u8 = 1;
const HEAD: usize = 8;
/// The id of the only request of a connection at a time.
const REQUEST: u8 = 1;
const RESPONDER: u8 = 1;
/// Lengths from here on take four bytes.
const LONG: u8 = 128;
/// Bytes of the content of [`END_REQUEST`].
const END: usize = 8;

/// Protocol statuses of the end of a request (section 5.5): it was served, or not begun.
pub(super) const REQUEST_COMPLETE: u8 = 0;
pub(super) const CANT_MPX_CONN: u8 = 1;
pub(super) const OVERLOADED: u8 = 2;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let mut record = head(kind, u16::try_from(content.len()).unwrap()).to_vec();
        record[6] = padding;
        record.extend_from_slice(content);
        record.resize(record.len() + usize::from(padding), 7);
        record
    }

    /// Parses bytes that come in pieces of so many.
    fn parsed(bytes: &[u8], cut: usize) -> Result<(String, String, Option<u8>), &'static str> {
        let (mut parser, mut received) = (Parser::default(), BytesMut::new());
        let (mut output, mut error, mut end) = (Vec::new(), Vec::new(), None);
        for piece in bytes.chunks(cut) {
            received.extend_from_slice(piece);
            while let Some(piece) = parser.next(&mut received)? {
                match piece {
                    Piece::Output(bytes) => output.extend_from_slice(&bytes),
                    Piece::Error(bytes) => error.extend_from_slice(&bytes),
                    Piece::End(status) => end = Some(status),
                }
            }
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok((text(output), text(error), end))
    }

    #[test]
    fn streams_are_read_however_they_come() {
        let mut bytes = record(STDOUT, b"Status: 200\r\n", 0);
        bytes.extend(record(STDERR, b"notice", 5));
        bytes.extend(record(STDERR, b"", 0));
        bytes.extend(record(STDOUT, b"\r\nbody", 255));
        bytes.extend(record(STDOUT, b"", 8));
        bytes.extend(record(END_REQUEST, &[0; 8], 0));
        for cut in [1, 3, 8, 9, usize::MAX] {
            let (output, error, end) = parsed(&bytes, cut).unwrap();
            assert_eq!(output, "Status: 200\r\n\r\nbody");
            assert_eq!((error.as_str(), end), ("notice", Some(0)));
        }
        let refused = record(END_REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0], 0);
        assert_eq!(parsed(&refused, 5).unwrap().2, Some(OVERLOADED));
    }

    #[test]
    fn what_breaks_the_protocol_is_an_error() {
        let with = |index: usize, value: u8| {
            let mut bytes = record(STDOUT, b"a", 0);
            bytes[index] = value;
            bytes
        };
        let twice = [record(STDOUT, b"", 0), record(STDOUT, b"a", 0)].concat();
        let behind = [record(END_REQUEST, &[0; 8], 0), record(STDOUT, b"a", 0)].concat();
        for (bytes, why) in [
            (with(0, 2), "version"),
            (with(1, 4), "type"),
            (with(1, 11), "type"),
            (with(2, 1), "id"),
            (with(3, 0), "id"),
            (record(END_REQUEST, b"short", 0), "length"),
            (twice, "end of its stream"),
            (behind, "end of the request"),
            (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), "version"),
        ] {
            for cut in [1, usize::MAX] {
                let wrong = parsed(&bytes, cut).unwrap_err();
                assert!(wrong.contains(why), "{wrong}");
            }
        }
    }

    #[test]
    fn long_values_and_bodies_are_split() {
        let mut encoded = Vec::new();
        pair(&mut encoded, b"A", &[b'x'; 127]);
        assert_eq!(encoded[..2], [1, 127]);
        encoded.clear();
        pair(&mut encoded, b"A", &[b'x'; 128]);
        assert_eq!(encoded[..5], [1, 0x80, 0, 0, 128]);
        let mut out = Vec::new();
        input(&mut out, &[b'y'; 65_536]);
        assert_eq!(out[..8], [1, STDIN, 0, 1, 0xff, 0xff, 0, 0]);
        assert_eq!(out[8 + 65_535..][..9], [1, STDIN, 0, 1, 0, 1, 0, 0, b'y']);
        out.clear();
        params(&mut out, &encoded);
        assert_eq!(out[out.len() - 8..], [1, PARAMS, 0, 1, 0, 0, 0, 0]);
    }
}
