//! PEM of chains and keys, in one file or two.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_certs::credential::{Credential, Dates};

fuzz_target!(|bytes: &[u8]| {
    let _ = Credential::parse(bytes, bytes, Dates::Any);
    let _ = Credential::parse_stored_bundle(bytes);
    let half = bytes.len() / 2;
    let (chain, key) = bytes.split_at(half);
    let _ = Credential::parse(chain, key, Dates::Any);
    let _ = Credential::parse_stored(chain, key);
});
