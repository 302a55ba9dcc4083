//! URLs of stores as operators write them.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sekisho_stores::{postgres, redis};

fuzz_target!(|text: &str| {
    let base = Path::new("/etc/sekisho");
    let _ = postgres::Url::parse(text, base);
    let _ = redis::RedisUrl::parse(text, base);
    let _ = redis::RedisUrl::parse_level(text, base);
});
