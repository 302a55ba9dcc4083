//! Archives of tar, which `cert import` reads from standard input.
#![no_main]

use std::path::Component;

use libfuzzer_sys::fuzz_target;

use check::MAX_FILE;
use tar::{Content, Tar};

mod check {
    pub(super) const MAX_FILE: usize = 256 * 1024;
}
#[path = "../../src/cli/cert/import/tar.rs"]
mod tar;

fuzz_target!(|bytes: &[u8]| {
    let mut archive = Tar(bytes);
    let mut read = 0;
    while let Ok(Some(entry)) = archive.next_file() {
        if let Content::Bytes(content) = entry.content {
            assert!(content.len() <= MAX_FILE);
            let leads_in = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            assert!(entry.name.components().all(leads_in), "{:?}", entry.name);
            read += content.len();
        }
    }
    assert!(read <= bytes.len());
});
