//! Parser of frame heads in a byte stream (RFC 9113, section 4.1).

/// Head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(super) len: u32,
    pub(crate) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    fn new(bytes: [u8; HEAD]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            len: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            // The highest bit is reserved.
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    pub(super) fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }
}

/// Incremental parser of frame heads.
#[derive(Default)]
pub(crate) struct Parser {
    head: [u8; HEAD],
    /// Bytes of the head that have arrived.
    have: usize,
    /// Bytes to skip before the next head.
    skip: usize,
    /// Set while a field block is open: whether the current frame is its last.
    block: Option<Last>,
    /// The part of an increment that has arrived, while the current frame opens the
    /// connection's window.
    increment: Option<u32>,
    /// Sum of the increments of the connection's window.
    opened: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Last(bool);

impl Parser {
    /// Makes a parser of what a server receives: the preface comes first.
    pub(crate) fn server() -> Self {
        Self {
            skip: PREFACE,
            ..Self::default()
        }
    }

    /// Makes a parser of what a client receives.
    pub(crate) fn client() -> Self {
        Self::default()
    }

    /// Passes each head that these bytes complete to `show`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut show: impl FnMut(Head)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            self.add_increment(&bytes[..skipped]);
            bytes = &bytes[skipped..];
            let taken = (HEAD - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEAD {
                let head = Head::new(self.head);
                self.have = 0;
                self.skip = usize::try_from(head.len).expect("24 bits");
                if matches!(head.kind, HEADERS | CONTINUATION) {
                    self.block = Some(Last(head.flags & END_HEADERS != 0));
                }
                let opens = head.kind == WINDOW_UPDATE && head.stream == 0;
                self.increment = opens.then_some(0);
                show(head);
            }
        }
        if self.skip == 0 && self.block == Some(Last(true)) {
            self.block = None;
        }
    }

    /// Adds payload of the current frame to the connection's window, if that opens it.
    fn add_increment(&mut self, payload: &[u8]) {
        let Some(increment) = self.increment else {
            return;
        };
        let increment = payload
            .iter()
            .fold(increment, |sum, byte| sum << 8 | u32::from(*byte));
        self.increment = (self.skip > 0).then_some(increment);
        if self.skip == 0 {
            self.opened += u64::from(increment);
        }
    }

    /// Returns the sum of all increments of the connection's window (RFC 9113, section
    /// 6.9).
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns whether a field block has begun and not ended. No other frame may come in
    /// between (RFC 9113, section 4.3).
    pub(crate) fn is_in_head(&self) -> bool {
        self.block.is_some()
    }

    /// Returns whether the last frame is complete.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.rest() == 0
    }

    /// Returns the bytes to the end of the current head or payload.
    pub(crate) fn rest(&self) -> usize {
        if self.skip > 0 {
            self.skip
        } else {
            (HEAD - self.have) % HEAD
        }
    }
}

pub(super) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Bytes of a frame's head.
pub(crate) const HEAD: usize = 9;

/// Bytes before a client's first frame (RFC 9113, section 3.4).
pub(super) const PREFACE: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_heads_however_the_bytes_are_cut() {
        let mut bytes = vec![b'P'; PREFACE];
        bytes.extend([0, 0, 3, HEADERS, 1, 0x80, 0, 0, 5, 1, 2, 3]);
        bytes.extend([0, 0, 0, CONTINUATION, 4, 0, 0, 0, 5]);
        bytes.extend([0, 1, 0, DATA, 1, 0, 0, 1, 0]);
        bytes.extend([7; 256]);
        for cut in 1..bytes.len() {
            let (mut parser, mut heads) = (Parser::server(), Vec::new());
            for piece in bytes.chunks(cut) {
                parser.feed(piece, |head| heads.push((head.kind, head.stream, head.len)));
            }
            assert_eq!(
                heads,
                [(HEADERS, 5, 3), (CONTINUATION, 5, 0), (DATA, 256, 256)]
            );
            assert!(parser.is_between_frames() && !parser.is_in_head());
        }
    }

    #[test]
    fn adds_increments_of_the_connection_however_the_bytes_are_cut() {
        let mut bytes = vec![0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 1, 2, 3];
        bytes.extend([0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 1, 0, 0, 0, 99]);
        bytes.extend([0, 0, 4, DATA, 0, 0, 0, 0, 1, 0, 0, 0, 99]);
        bytes.extend([0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        for cut in 1..bytes.len() {
            let mut parser = Parser::client();
            for piece in bytes.chunks(cut) {
                parser.feed(piece, |_| {});
            }
            assert_eq!(parser.opened(), 0x1_0203 + 7);
        }
    }

    #[test]
    fn a_field_block_ends_with_the_last_byte_of_its_last_frame() {
        let mut parser = Parser::client();
        let mut heads = 0;
        for (bytes, open, rest) in [
            (&[0, 0, 2, HEADERS, 0, 0, 0, 0, 1][..], true, 2),
            (&[1, 2], true, 0),
            (&[0, 0, 1, CONTINUATION], true, 5),
            (&[4, 0, 0, 0, 1], true, 1),
            (&[3], false, 0),
        ] {
            parser.feed(bytes, |_| heads += 1);
            assert_eq!((parser.is_in_head(), parser.rest()), (open, rest));
        }
        assert_eq!(heads, 2);
    }
}
