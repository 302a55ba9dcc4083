//! What a Redis server sends, whole and in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_stores::redis::fuzzing::bounded;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, reply)) = bytes.split_first() else {
        return;
    };
    let whole = bounded(reply, reply.len().max(1));
    let pieces = bounded(reply, usize::from(*piece).max(1));
    assert_eq!(whole, pieces, "pieces of {piece} bytes");
});
