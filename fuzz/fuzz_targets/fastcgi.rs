//! What a FastCGI server sends: records and the head of an answer, however they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::fastcgi_answer;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let whole = fastcgi_answer(bytes, usize::MAX);
    assert_eq!(fastcgi_answer(bytes, usize::from(cut).max(1)), whole);
});
