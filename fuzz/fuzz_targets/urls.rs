//! URLs of stores as operators write them.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sekisho_stores::{Url, redis};

fuzz_target!(|text: &str| {
    let base = Path::new("/etc/sekisho");
    let _ = Url::parse(text, base);
    let _ = redis::RedisUrl::parse_cache(text, base);
});
