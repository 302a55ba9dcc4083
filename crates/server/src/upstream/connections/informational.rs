//! Counts the informational answers of an HTTP/1.1 upstream.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// Facts of the bytes that a connection received for the request in flight.
/// Relaxed ordering suffices: the tasks of a worker run on its thread.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Informational {
    /// Bytes of the answer came.
    answered: AtomicBool,
    /// Informational answers.
    informational: AtomicU8,
    /// Place in the answer's head.
    place: AtomicU8,
}

impl Informational {
    /// Begins a request.
    pub(in crate::upstream) fn begin(&self) {
        self.answered.store(false, Relaxed);
        self.informational.store(0, Relaxed);
        self.place.store(START, Relaxed);
    }

    /// Returns whether bytes of the answer came.
    pub(in crate::upstream) fn is_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// Notes received bytes. Returns false if there were too many informational
    /// answers. Reads only to the status of the final one.
    pub(in crate::upstream) fn received(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        self.answered.store(true, Relaxed);
        let mut place = self.place.load(Relaxed);
        for byte in bytes {
            if place == FINAL {
                break;
            }
            place = self.step(place, *byte);
            // Checked at each byte: one read may hold hundreds of heads.
            if self.informational.load(Relaxed) > MAX_INFORMATIONAL {
                return false;
            }
        }
        self.place.store(place, Relaxed);
        true
    }

    /// Follows one byte. Places below [`FINAL`] count the bytes of
    /// `HTTP/1.1 1xx`.
    fn step(&self, place: u8, byte: u8) -> u8 {
        match (place, byte) {
            // An empty line before a head.
            (START, b'\r' | b'\n') => START,
            (DIGIT, b'1') => {
                self.informational.fetch_add(1, Relaxed);
                LINE
            }
            (DIGIT, _) => FINAL,
            (START..DIGIT, _) => place + 1,
            (LINE, b'\n') => LINE_END,
            (LINE_END, b'\r') => LINE_END,
            (LINE_END, b'\n') => START,
            _ => LINE,
        }
    }
}

/// Informational answers before the final one.
const MAX_INFORMATIONAL: u8 = 8;

/// Begin of a head.
const START: u8 = 0;
/// First digit of the status, behind `HTTP/1.1 `.
const DIGIT: u8 = 9;
/// Within a line of an informational answer.
const LINE: u8 = 10;
/// Behind such a line.
const LINE_END: u8 = 11;
/// Within the final answer.
const FINAL: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informational_answers_are_counted() {
        let early = b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n".repeat(8);
        for split in [1, 7, usize::MAX] {
            let informational = Informational::default();
            informational.begin();
            let all = [&early[..], b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 100 C\r\n\r\n"].concat();
            assert!(
                all.chunks(split.min(all.len()))
                    .all(|bytes| informational.received(bytes))
            );
            assert_eq!(informational.informational.load(Relaxed), 8);
            informational.begin();
            assert!(informational.received(&early));
            assert!(!informational.received(b"HTTP/1.1 1"));
        }
        // As many as the counter's type has values.
        let informational = Informational::default();
        informational.begin();
        assert!(!informational.received(&b"HTTP/1.1 100 C\r\n\r\n".repeat(256)));
    }
}
