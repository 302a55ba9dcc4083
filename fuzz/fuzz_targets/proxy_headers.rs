//! Headers of the PROXY protocol: no shorter beginning of one is complete.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::proxy_header;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, length)) = proxy_header(bytes) else {
        return;
    };
    for cut in 0..length {
        assert_eq!(proxy_header(&bytes[..cut]), None, "{cut} of {header}");
    }
});
