//! The first bytes of a connection, whole and in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::client_hello;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, hello)) = bytes.split_first() else {
        return;
    };
    let whole = client_hello(hello, hello.len().max(1));
    let pieces = client_hello(hello, usize::from(*piece).max(1));
    assert_eq!(whole, pieces, "pieces of {piece} bytes");
});
