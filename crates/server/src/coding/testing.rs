//! Entry points of the fuzz targets.

use std::io::Read;

use flate2::read::GzDecoder;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::accept::Accepted;
use super::encode::Gzip;

/// Returns the weights of br, zstd and gzip in a value of the field; None if no field may
/// have it.
#[must_use]
pub fn accept_encoding(value: &[u8]) -> Option<[u16; 3]> {
    let value = HeaderValue::from_bytes(value).ok()?;
    let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, value)]);
    Some(Accepted::of(&fields).0)
}

/// Writes pieces into a stream of gzip, and flushes as their first bytes say. Returns what a
/// client decodes.
#[must_use]
pub fn coded_body(level: u8, pieces: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let (mut gzip, mut coded) = (Gzip::new(level), Vec::new());
    for (how, piece) in pieces {
        coded.extend(gzip.write(piece));
        if how % 4 == 1 {
            coded.extend(gzip.flush());
        }
    }
    coded.extend(gzip.finish());
    let (mut decoded, mut decoder) = (Vec::new(), GzDecoder::new(&*coded));
    let read = decoder.read_to_end(&mut decoded);
    read.expect("what was coded decodes");
    decoded
}
