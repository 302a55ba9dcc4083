//! Encoders: of bodies that are whole in memory, and of gzip piece by piece.

use std::io::Write as _;
use std::mem;

use brotli::BrotliCompress;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::site::Coding;

/// Compresses a body. None if it has less than [`LEAST`] bytes or gets no smaller, and for
/// zstd, which is served precompressed only. `level` is that of gzip, as nginx counts.
pub(crate) fn compress(coding: Coding, level: u8, mut body: &[u8]) -> Option<Vec<u8>> {
    let length = body.len();
    if length < LEAST {
        return None;
    }
    let mut coded = Vec::with_capacity(length / 2);
    match coding {
        Coding::Br => {
            let params = BrotliEncoderParams {
                quality: 4,
                lgwin: 18,
                size_hint: length,
                ..BrotliEncoderParams::default()
            };
            BrotliCompress(&mut body, &mut coded, &params).ok()?;
        }
        Coding::Gzip => {
            let mut gzip = gzip(level, coded);
            gzip.write_all(body).expect(IN_MEMORY);
            coded = gzip.finish().expect(IN_MEMORY);
        }
        Coding::Zstd => return None,
    }
    (coded.len() < length).then_some(coded)
}

/// Begins a stream of gzip (RFC 1952). Level 1 of zlib-rs is a quick one, whose output is a
/// quarter larger than that of nginx: levels 1 and 2 are its levels 2 and 3.
fn gzip(level: u8, out: Vec<u8>) -> GzEncoder<Vec<u8>> {
    let level = match level {
        ..=1 => 2,
        2 => 3,
        _ => level.min(9),
    };
    GzEncoder::new(out, Compression::new(level.into()))
}

/// Returns how many bytes a worker compresses itself: those of the usual level take some 20 µs,
/// as the way to another thread does. Their worst costs no more at other levels.
pub(super) fn at_once(level: u8) -> usize {
    (4 << 10) * PLACES[4] / PLACES[usize::from(level.min(9))].max(PLACES[4])
}

/// Stream of gzip that is made piece by piece.
#[derive(Debug)]
pub(crate) struct Gzip(GzEncoder<Vec<u8>>);

impl Gzip {
    /// Begins a stream of a level, as nginx counts.
    pub(crate) fn new(level: u8) -> Self {
        Self(gzip(level, Vec::new()))
    }

    /// Compresses a piece. Returns what the encoder does not keep for later.
    pub(crate) fn write(&mut self, piece: &[u8]) -> Vec<u8> {
        self.0.write_all(piece).expect(IN_MEMORY);
        mem::take(self.0.get_mut())
    }

    /// Returns what the encoder has kept: a client can decode all that was written.
    pub(crate) fn flush(&mut self) -> Vec<u8> {
        self.0.flush().expect(IN_MEMORY);
        mem::take(self.0.get_mut())
    }

    /// Ends the stream. Returns the rest of it.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.finish().expect(IN_MEMORY)
    }
}

/// Bytes of the smallest body that is compressed: below, head and trailer eat the gain.
pub(crate) const LEAST: usize = 512;
/// Bytes that an encoder may keep until it flushes or ends: the longest match, and the begin of
/// the next.
pub(super) const KEPT: usize = 262;
/// Places that zlib-rs compares a byte with at each level: chains of its levels 2 to 9.
const PLACES: [usize; 10] = [4, 4, 6, 6, 24, 32, 128, 256, 1024, 4096];
const IN_MEMORY: &str = "memory takes each byte";

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
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
        for bytes in [LEAST, 4 << 10, 20_000, 64 << 10, 1 << 20] {
            let body = text(bytes);
            for level in 0..=10 {
                let coded = compress(Coding::Gzip, level, &body).unwrap();
                assert!(coded.len() < body.len() / 2, "{bytes} {level}");
                assert_eq!(gunzip(&coded), body, "{bytes} {level}");
            }
            let coded = compress(Coding::Br, 4, &body).unwrap();
            assert!(coded.len() < body.len() / 2, "{bytes}");
            let mut decoded = Vec::new();
            brotli::BrotliDecompress(&mut &*coded, &mut decoded).unwrap();
            assert_eq!(decoded, body, "{bytes}");
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        for coding in [Coding::Br, Coding::Gzip] {
            for body in [random(64 << 10), random(LEAST), text(LEAST - 1), Vec::new()] {
                assert_eq!(compress(coding, 9, &body), None, "{}", body.len());
            }
        }
        assert_eq!(compress(Coding::Zstd, 4, &text(4096)), None);
    }

    #[test]
    fn a_worker_compresses_less_at_higher_levels() {
        let bytes = [0, 1, 4, 5, 6, 7, 8, 9, 255].map(at_once);
        assert_eq!(bytes, [4096, 4096, 4096, 3072, 768, 384, 96, 24, 24]);
    }

    #[test]
    fn level_1_is_no_quick_one() {
        let (body, mut quick) = (text(20_000), Vec::with_capacity(20_000));
        let mut deflate = Compress::new(Compression::new(1), false);
        let ended = deflate.compress_vec(&body, &mut quick, FlushCompress::Finish);
        assert_eq!(ended.unwrap(), Status::StreamEnd);
        let coded = compress(Coding::Gzip, 1, &body);
        assert!(coded.unwrap().len() < quick.len());
    }

    #[test]
    fn a_flush_lets_all_be_decoded() {
        let (mut gzip, mut decoder) = (Gzip::new(4), Decompress::new_gzip(15));
        for piece in [&b"first"[..], b"second", &random(100_000), &text(100_000)] {
            let mut coded = gzip.write(piece);
            coded.extend(gzip.flush());
            let mut decoded = Vec::with_capacity(piece.len() + 1);
            let flush = FlushDecompress::Sync;
            decoder.decompress_vec(&coded, &mut decoded, flush).unwrap();
            assert_eq!(decoded, piece);
        }
    }

    #[test]
    fn an_empty_stream_is_whole() {
        assert_eq!(gunzip(&Gzip::new(4).finish()), b"");
    }

    #[test]
    fn what_random_bytes_grow_is_bounded() {
        for bytes in [1, 200_000] {
            let (mut gzip, piece) = (Gzip::new(4), random(bytes));
            let mut coded = gzip.write(&piece);
            coded.extend(gzip.finish());
            assert!(coded.len() <= bytes + bytes / 1000 + 64, "{}", coded.len());
            assert_eq!(gunzip(&coded), piece);
        }
    }

    proptest! {
        #[test]
        fn pieces_decode_however_they_are_written(
            pieces in vec((0..3u8, 0..70_000usize, any::<bool>()), 0..8),
            level in 1..=9u8,
        ) {
            let (mut gzip, mut coded, mut sent) = (Gzip::new(level), Vec::new(), Vec::new());
            for (how, bytes, is_text) in pieces {
                let piece = if is_text { text(bytes) } else { random(bytes) };
                match how {
                    0 => coded.extend(gzip.write(&piece)),
                    1 => {
                        coded.extend(gzip.write(&piece));
                        coded.extend(gzip.flush());
                    }
                    _ => piece.chunks(1000).for_each(|part| coded.extend(gzip.write(part))),
                }
                sent.extend(piece);
            }
            coded.extend(gzip.finish());
            prop_assert!(gunzip(&coded) == sent);
        }
    }
}
