//! HTTP/2 by hand: frames, field blocks without compression, and answers.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::answers::Answer;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Encodes a frame (RFC 9113, section 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Encodes the preface, with SETTINGS_INITIAL_WINDOW_SIZE, and a dynamic table of
/// length 0 for what the server sends.
pub(crate) fn preface(window: u32) -> Vec<u8> {
    let table = [0, 1, 0, 0, 0, 0];
    let window = [&[0, 4][..], &window.to_be_bytes()].concat();
    [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[&table[..], &window].concat()),
    ]
    .concat()
}

/// Encodes fields as literals without indexing and without Huffman codes (RFC 7541,
/// section 6.2.2).
pub(crate) fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name.as_ref());
        text(&mut block, value.as_ref());
    }
    block
}

/// Encodes HEADERS, in as many CONTINUATION frames as the block needs.
pub(crate) fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    let mut pieces = block.chunks(MAX_FRAME).peekable();
    let mut bytes = Vec::new();
    let (mut kind, mut flags) = (HEADERS, flags);
    loop {
        let piece = pieces.next().unwrap_or_default();
        let last = pieces.peek().is_none();
        let end = if last { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags | end, stream, piece));
        if last {
            return bytes;
        }
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// Encodes a GET without a body.
pub(crate) fn get(stream: u32, host: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", host),
        (":path", path),
    ];
    headers(stream, END_STREAM, &block(&fields))
}

/// Encodes the length of a string with a prefix of 7 bits, and the string.
fn text(block: &mut Vec<u8>, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(length @ ..0x7f) => block.push(length),
        _ => {
            block.push(0x7f);
            let mut rest = text.len() - 0x7f;
            while rest >= 0x80 {
                block.push((rest % 0x80) as u8 | 0x80);
                rest /= 0x80;
            }
            block.push(rest as u8);
        }
    }
    block.extend(text);
}

/// Frame that the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// Reads the server's next frame.
pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await?;
    Ok(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
        payload,
    })
}

/// Answers of a connection's streams, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    answers: BTreeMap<u32, Answer>,
    /// Set once the server said GOAWAY or closed.
    pub(crate) ended: bool,
}

impl Streams {
    pub(crate) fn note(&mut self, frame: &Frame) {
        if frame.kind == GOAWAY {
            self.ended = true;
        }
        if frame.stream == 0 {
            return;
        }
        let answer = self.answers.entry(frame.stream).or_default();
        match frame.kind {
            HEADERS => {
                // Trailers have no status.
                answer.status = status(&frame.payload).unwrap_or(answer.status);
            }
            DATA => answer.body.extend(&frame.payload),
            RST_STREAM => answer.reset = true,
            _ => {}
        }
        answer.complete |= frame.ends_stream();
    }

    pub(crate) fn answer(&self, stream: u32) -> Option<&Answer> {
        self.answers.get(&stream)
    }

    /// Returns whether this stream has come to its end.
    pub(crate) fn is_over(&self, stream: u32) -> bool {
        let answer = self.answers.get(&stream);
        self.ended || answer.is_some_and(|answer| answer.complete || answer.reset)
    }
}

/// Decodes `:status`, which is the first field of an answer. The server has no dynamic
/// table.
fn status(block: &[u8]) -> Option<u16> {
    let updates = block.iter().take_while(|byte| *byte >> 5 == 1).count();
    let (first, rest) = block[updates..].split_first()?;
    if first & 0x80 != 0 {
        let known = [200, 204, 206, 304, 400, 404, 500];
        return known
            .get(usize::from(first & 0x7f).checked_sub(8)?)
            .copied();
    }
    // Literals of the name with index 8 to 14, without and with indexing.
    if !(8..=14).contains(&(first & 0x0f)) {
        return None;
    }
    let (length, value) = rest.split_first()?;
    let value = value.get(..usize::from(length & 0x7f))?;
    let digits = if length & 0x80 == 0 {
        value.to_vec()
    } else {
        huffman_digits(value)
    };
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Decodes digits (RFC 7541, appendix B): 0 to 2 have codes of 5 bits, 3 to 9 of 6.
fn huffman_digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let number = |bits: &[u8]| bits.iter().fold(0, |sum, bit| sum * 2 + bit);
    let (mut digits, mut at) = (Vec::new(), 0);
    while digits.len() < 3 && at + 5 <= bits.len() {
        let five = number(&bits[at..at + 5]);
        if five < 3 {
            digits.push(b'0' + five);
            at += 5;
        } else if at + 6 <= bits.len() {
            digits.push(number(&bits[at..at + 6]).wrapping_sub(22) + b'0');
            at += 6;
        } else {
            break;
        }
    }
    digits
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes that a frame has at most unless a peer allows more.
const MAX_FRAME: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_length_in_front() {
        let ping = frame(PING, 0, 0, &[7; 8]);
        assert_eq!(ping[..9], [0, 0, 8, 6, 0, 0, 0, 0, 0]);
        assert_eq!(ping.len(), 17);
        assert!(preface(0).ends_with(&[0, 4, 0, 0, 0, 0]));
    }

    #[test]
    fn long_blocks_are_continued() {
        let long = "x".repeat(20_000);
        let encoded = block(&[("a", long.as_str())]);
        // 20,000 - 127 = 0x4da1: 0x21 with more to come, then 0x9b, then 1.
        assert_eq!(encoded[..7], [0, 1, b'a', 0x7f, 0xa1, 0x9b, 1]);
        let frames = headers(1, END_STREAM, &encoded);
        assert_eq!((frames[3], frames[4]), (HEADERS, END_STREAM));
        let second = &frames[9 + MAX_FRAME..];
        assert_eq!((second[3], second[4]), (CONTINUATION, END_HEADERS));
    }

    #[test]
    fn statuses_are_decoded() {
        for (block, want) in [
            (&[0x88][..], Some(200)),
            (&[0x20, 0x8d], Some(404)),
            (&[0x08, 3, b'4', b'2', b'1'], Some(421)),
            // 421: 011010 00010 00001; 503: 011011 00000 011001.
            (&[0x08, 0x82, 0b0110_1000, 0b0100_0001], Some(421)),
            (
                &[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111],
                Some(503),
            ),
            (&[0x5f, 1, b'a'], None),
        ] {
            assert_eq!(status(block), want, "{block:x?}");
        }
    }
}
