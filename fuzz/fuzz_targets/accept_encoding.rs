//! Codings that a client takes: a weight of 0 to 1 for each, by each list that a field may
//! hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::accept_encoding;

fuzz_target!(|value: &[u8]| {
    let Some(weights) = accept_encoding(value) else {
        return;
    };
    let [br, zstd, gzip] = weights.map(|weight| {
        assert!(weight <= 1000);
        format!("{}.{:03}", weight / 1000, weight % 1000)
    });
    // The weights written out are the same list.
    let list = format!("br;q={br}, zstd;q={zstd}, gzip;q={gzip}, *;q=0");
    assert_eq!(accept_encoding(list.as_bytes()), Some(weights), "{list}");
});
