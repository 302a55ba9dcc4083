//! Lines of HAProxy's crt-lists and of CSV lists, which `cert import` reads.
#![no_main]
#![allow(dead_code, reason = "the files are the binary's, and one of them is the target")]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

use list::{ReadLine, crt_list_line, csv_line};
use source::Names;

#[path = "../../src/cli/cert/import/list.rs"]
mod list;
#[path = "../../src/cli/cert/import/source.rs"]
mod source;

mod folder {
    use std::path::Path;

    use super::source::{Half, Names, Pair};

    pub(super) fn bundle(path: &Path, names: Names) -> Pair {
        Pair::new(names, Half::File(path.to_owned()), None)
    }
}

fuzz_target!(|line: &str| {
    for read in [crt_list_line as ReadLine, csv_line] {
        for pair in read(Path::new("/nowhere"), line).unwrap_or_default() {
            assert!(!pair.chain.place().as_os_str().is_empty());
            if let Names::Exactly(names) = pair.names {
                assert!(!names.is_empty());
            }
        }
    }
});
