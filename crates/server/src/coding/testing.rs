//! Entry points of the fuzz targets.

use std::io::Read;

use flate2::read::GzDecoder;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::accept::Accepted;
use super::encode::Encoders;

/// Returns the weights of br, zstd and gzip in a value of the field; None if no field may
/// have it.
#[must_use]
pub fn accept_encoding(value: &[u8]) -> Option<[u16; 3]> {
    let value = HeaderValue::from_bytes(value).ok()?;
    let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, value)]);
    Some(Accepted::of(&fields).0)
}

/// Writes pieces into a stream of gzip as their first bytes say: compressed, stored, or
/// flushed. Returns what a client decodes.
#[must_use]
pub fn coded_body(level: u8, pieces: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let encoders = Encoders::default();
    let (mut gzip, mut coded) = (encoders.gzip(level), Vec::new());
    for (how, piece) in pieces {
        match how % 4 {
            0 => gzip.store(piece, &mut coded),
            1 => {
                gzip.write(piece, &mut coded);
                gzip.flush(&mut coded);
            }
            _ => gzip.write(piece, &mut coded),
        }
    }
    encoders.finish(gzip, &mut coded);
    let (mut decoded, mut decoder) = (Vec::new(), GzDecoder::new(&*coded));
    let read = decoder.read_to_end(&mut decoded);
    read.expect("what was coded decodes");
    decoded
}
