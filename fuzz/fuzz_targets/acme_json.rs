//! Traefik's `acme.json`, which `cert import` reads one certificate at a time.
#![no_main]
#![allow(dead_code, reason = "the files are the binary's, and one of them is the target")]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

#[path = "../../src/cli/cert/import/acme_json.rs"]
mod acme_json;
#[path = "../../src/cli/cert/import/source.rs"]
mod source;
#[path = "../../src/cli/cert/import/tar.rs"]
mod tar;

mod check {
    pub(super) const MAX_FILE: usize = 256 * 1024;
}

fuzz_target!(|bytes: &[u8]| {
    let is_json = serde_json::from_slice::<Value>(bytes).is_ok();
    for read in acme_json::read("acme.json".into(), bytes) {
        if let Err(refused) = read {
            let is_cut = refused.group == "the rest of the file can't be read";
            assert!(!is_json || !is_cut, "{}", refused.reason);
        }
    }
});
