//! Encoders: of bodies that are whole in memory, and of gzip piece by piece.

use std::sync::{Mutex, MutexGuard, PoisonError};

use brotli::BrotliCompress;
use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::site::Coding;

/// Maker of encoders. It keeps the memory of some that have ended: fresh pages for one
/// cost more time than to compress 20 KB of text.
#[derive(Debug, Default)]
pub(crate) struct Encoders(Mutex<Vec<Compress>>);

impl Encoders {
    /// Compresses a body. None if it has less than [`LEAST`] bytes or gets no smaller, and
    /// for zstd, which is served precompressed only. `level` is that of gzip, as nginx counts.
    pub(crate) fn whole(&self, coding: Coding, level: u8, body: &[u8]) -> Option<Vec<u8>> {
        if body.len() < LEAST {
            return None;
        }
        let coded = match coding {
            Coding::Br => compress_brotli(body)?,
            Coding::Gzip => {
                let mut out = Vec::new();
                let mut gzip = self.gzip(level);
                gzip.write(body, &mut out);
                self.finish(gzip, &mut out);
                out
            }
            Coding::Zstd => return None,
        };
        (coded.len() < body.len()).then_some(coded)
    }

    /// Begins a stream of gzip. Level 1 of zlib-rs is a quick one, whose output is a quarter
    /// larger than that of nginx: levels 1 and 2 are its levels 2 and 3.
    pub(crate) fn gzip(&self, level: u8) -> Gzip {
        let level = Compression::new(match level {
            0 | 1 => 2,
            2 => 3,
            3..=9 => u32::from(level),
            10.. => 9,
        });
        let spare = self.lock().pop();
        let spare = spare.and_then(|mut deflate| {
            deflate.reset();
            deflate.set_level(level).ok().map(|()| deflate)
        });
        Gzip {
            deflate: spare.unwrap_or_else(|| Compress::new(level, false)),
            crc: Crc::new(),
            is_begun: false,
        }
    }

    /// Ends a stream of gzip, and appends the rest of it.
    pub(crate) fn finish(&self, mut gzip: Gzip, out: &mut Vec<u8>) {
        gzip.deflate(&[], FlushCompress::Finish, out);
        out.extend(gzip.crc.sum().to_le_bytes());
        out.extend(gzip.crc.amount().to_le_bytes());
        let mut spare = self.lock();
        if spare.len() < MAX_SPARE {
            spare.push(gzip.deflate);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Compress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stream of gzip (RFC 1952) that is made piece by piece. It writes head and trailer itself:
/// zlib-rs can't change its level within a stream, and pieces that nobody has time to
/// compress are stored past the encoder.
#[derive(Debug)]
pub(crate) struct Gzip {
    /// Encoder of raw deflate (RFC 1951).
    deflate: Compress,
    crc: Crc,
    is_begun: bool,
}

impl Gzip {
    /// Compresses a piece, and appends what the encoder does not keep for later.
    pub(crate) fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.crc.update(piece);
        self.deflate(piece, FlushCompress::None, out);
    }

    /// Appends what the encoder has kept: a client can decode all that was written.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        self.deflate(&[], FlushCompress::Sync, out);
    }

    /// Appends a piece as it is, in stored blocks (RFC 1951, section 3.2.4).
    pub(crate) fn store(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        // After a full flush nothing refers to bytes before it: the encoder does not know
        // how many come between.
        self.deflate(&[], FlushCompress::Full, out);
        self.crc.update(piece);
        for block in piece.chunks(usize::from(u16::MAX)) {
            let length = u16::try_from(block.len()).expect("a block is short");
            out.push(NOT_LAST_STORED);
            out.extend(length.to_le_bytes());
            out.extend((!length).to_le_bytes());
            out.extend_from_slice(block);
        }
    }

    fn deflate(&mut self, mut piece: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.is_begun {
            out.extend(HEAD);
        }
        loop {
            // The encoder writes only into capacity that is there. Most texts shrink to a
            // third; with less room than 7 bytes a flush would be written twice.
            out.reserve(piece.len() / 2 + 64);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(piece, out, flush);
            let status = status.expect("an encoder that has not ended takes each piece");
            let taken = self.deflate.total_in() - before;
            piece = &piece[usize::try_from(taken).expect("bytes of a piece")..];
            // Without room that is left, more output may wait.
            let is_done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => piece.is_empty() && out.len() < out.capacity(),
            };
            if is_done {
                break;
            }
        }
        // The head goes with the first bytes behind it, not in a frame of its own.
        self.is_begun |= out.len() > start + HEAD.len();
        if !self.is_begun {
            out.truncate(start);
        }
    }
}

fn compress_brotli(mut body: &[u8]) -> Option<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: 4,
        lgwin: 18,
        size_hint: body.len(),
        ..BrotliEncoderParams::default()
    };
    let mut out = Vec::with_capacity(body.len() / 2);
    BrotliCompress(&mut body, &mut out, &params).ok()?;
    Some(out)
}

/// Head of gzip: deflate, no name and no time, of no system that it names.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// First byte of a stored block that begins at a byte and is not the last.
const NOT_LAST_STORED: u8 = 0;
/// Bytes of the smallest body that is compressed: below, head and trailer eat the gain.
pub(crate) const LEAST: usize = 512;
/// Encoders whose memory is kept, of 270 KB each.
const MAX_SPARE: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use flate2::{Decompress, FlushDecompress};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn gunzip(coded: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        GzDecoder::new(coded).read_to_end(&mut decoded).unwrap();
        decoded
    }

    /// Words in no order that a compressor could foresee.
    fn text(bytes: usize) -> Vec<u8> {
        let words = "One paragraph of <b>text</b> follows another.";
        let words: Vec<_> = words.split_inclusive(' ').collect();
        let (mut number, mut text) = (1, Vec::new());
        while text.len() < bytes {
            number = number * 48_271 % 0x7fff_ffff;
            text.extend(words[number % words.len()].bytes());
        }
        text.truncate(bytes);
        text
    }

    fn random(bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; bytes];
        aws_lc_rs::rand::fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_whole_body_decodes() {
        let encoders = Encoders::default();
        for bytes in [LEAST, 4 << 10, 20_000, 64 << 10, 1 << 20] {
            let body = text(bytes);
            for level in 0..=10 {
                let coded = encoders.whole(Coding::Gzip, level, &body).unwrap();
                assert!(coded.len() < body.len() / 2, "{bytes} {level}");
                assert_eq!(gunzip(&coded), body, "{bytes} {level}");
            }
            let coded = encoders.whole(Coding::Br, 4, &body).unwrap();
            assert!(coded.len() < body.len() / 2, "{bytes}");
            let mut decoded = Vec::new();
            brotli::BrotliDecompress(&mut &*coded, &mut decoded).unwrap();
            assert_eq!(decoded, body, "{bytes}");
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let encoders = Encoders::default();
        for coding in [Coding::Br, Coding::Gzip] {
            for body in [random(64 << 10), random(LEAST), text(LEAST - 1), Vec::new()] {
                assert_eq!(encoders.whole(coding, 9, &body), None, "{}", body.len());
            }
        }
        assert_eq!(encoders.whole(Coding::Zstd, 4, &text(4096)), None);
    }

    #[test]
    fn level_1_is_no_quick_one() {
        let (body, mut quick) = (text(20_000), Vec::with_capacity(20_000));
        let mut deflate = Compress::new(Compression::new(1), false);
        let ended = deflate.compress_vec(&body, &mut quick, FlushCompress::Finish);
        assert_eq!(ended.unwrap(), Status::StreamEnd);
        let coded = Encoders::default().whole(Coding::Gzip, 1, &body);
        assert!(coded.unwrap().len() < quick.len());
    }

    #[test]
    fn memory_of_encoders_is_kept_up_to_a_bound() {
        let encoders = Encoders::default();
        let streams: Vec<_> = (0..=MAX_SPARE).map(|_| encoders.gzip(4)).collect();
        for gzip in streams {
            encoders.finish(gzip, &mut Vec::new());
        }
        assert_eq!(encoders.lock().len(), MAX_SPARE);
        // Another level, after another stream, leaves no trace.
        let body = text(20_000);
        let again = encoders.whole(Coding::Gzip, 6, &body);
        assert_eq!(encoders.lock().len(), MAX_SPARE);
        assert_eq!(again, Encoders::default().whole(Coding::Gzip, 6, &body));
    }

    #[test]
    fn a_flush_lets_all_be_decoded() {
        let encoders = Encoders::default();
        let (mut gzip, mut coded) = (encoders.gzip(4), Vec::new());
        let mut decoder = Decompress::new_gzip(15);
        for piece in [&b"first"[..], b"second", &random(100_000), &text(100_000)] {
            coded.clear();
            gzip.write(piece, &mut coded);
            gzip.flush(&mut coded);
            let mut decoded = Vec::with_capacity(piece.len() + 1);
            let flush = FlushDecompress::Sync;
            decoder.decompress_vec(&coded, &mut decoded, flush).unwrap();
            assert_eq!(decoded, piece);
        }
        // Nothing new: nothing is sent.
        coded.clear();
        gzip.flush(&mut coded);
        assert!(coded.is_empty(), "{coded:?}");
    }

    #[test]
    fn an_empty_stream_is_whole() {
        let (encoders, mut coded) = (Encoders::default(), Vec::new());
        encoders.finish(encoders.gzip(4), &mut coded);
        assert_eq!(gunzip(&coded), b"");
    }

    #[test]
    fn what_random_bytes_grow_is_bounded() {
        let encoders = Encoders::default();
        for (bytes, stores) in [(1, true), (1, false), (200_000, true), (200_000, false)] {
            let (mut gzip, mut coded, piece) = (encoders.gzip(4), Vec::new(), random(bytes));
            match stores {
                true => gzip.store(&piece, &mut coded),
                false => gzip.write(&piece, &mut coded),
            }
            encoders.finish(gzip, &mut coded);
            assert!(coded.len() <= bytes + bytes / 1000 + 64, "{}", coded.len());
            assert_eq!(gunzip(&coded), piece);
        }
    }

    proptest! {
        #[test]
        fn pieces_decode_however_they_are_written(
            pieces in vec((0..4u8, 0..70_000usize, any::<bool>()), 0..8),
            level in 1..=9u8,
        ) {
            let encoders = Encoders::default();
            let (mut gzip, mut coded, mut sent) = (encoders.gzip(level), Vec::new(), Vec::new());
            for (how, bytes, is_text) in pieces {
                let piece = if is_text { text(bytes) } else { random(bytes) };
                match how {
                    0 => gzip.store(&piece, &mut coded),
                    1 => gzip.write(&piece, &mut coded),
                    2 => {
                        gzip.write(&piece, &mut coded);
                        gzip.flush(&mut coded);
                    }
                    _ => piece.chunks(1000).for_each(|part| gzip.write(part, &mut coded)),
                }
                sent.extend(piece);
            }
            encoders.finish(gzip, &mut coded);
            prop_assert!(gunzip(&coded) == sent);
        }
    }
}
