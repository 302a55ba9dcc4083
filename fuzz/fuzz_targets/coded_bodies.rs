//! Bodies in gzip decode to what was written, however their pieces are cut and flushed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::coded_body;

fuzz_target!(|input: (u8, Vec<(u8, Vec<u8>)>)| {
    let (level, pieces) = input;
    let written: Vec<u8> = pieces.iter().flat_map(|(_, piece)| piece).copied().collect();
    assert!(coded_body(level, &pieces) == written);
});
