//! Host names as clients and operators write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_certs::{HostName, HostPattern};

fuzz_target!(|text: &str| {
    if let Ok(name) = HostName::parse(text) {
        let ascii = name.as_str();
        assert!(ascii.len() <= 253 && !ascii.contains(['*', '/', '\0']));
        assert!(ascii.split('.').all(|label| (1..=63).contains(&label.len())));
        assert_eq!(HostName::parse(ascii).as_ref(), Ok(&name));
    }
    if let Ok(pattern) = HostPattern::parse(text) {
        assert_eq!(HostPattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));
    }
});
