//! DER of certificates and keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_certs::der;

fuzz_target!(|bytes: &[u8]| {
    let _ = der::leaf(bytes);
    let _ = der::rsa_public(bytes);
    let _ = der::rsa_private(bytes);
    let _ = der::rsa_private_modulus(bytes);
    if let Some(parts) = der::split(bytes) {
        assert_eq!(parts.concat(), bytes);
    }
});
