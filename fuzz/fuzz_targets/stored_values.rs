//! Values that the Redis cache and the disk cache hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_stores::stored::{
    read_credential, read_found, read_host, write_credential, write_found, write_host,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((record, shadowed)) = read_host(bytes) {
        let written = write_host(&record, shadowed).expect("it was written before");
        assert_eq!(read_host(&written).expect("what was written"), (record, shadowed));
    }
    // Secrets can't be compared; what is written of them can.
    if let Ok(credential) = read_credential(bytes) {
        let written = write_credential(&credential).expect("it was written before");
        let again = read_credential(&written).expect("what was written");
        assert_eq!(write_credential(&again).expect("again"), written);
    }
    if let Ok(found) = read_found(bytes) {
        let written = write_found(&found).expect("it was written before");
        let again = read_found(&written).expect("what was written");
        assert_eq!(write_found(&again).expect("again"), written);
    }
});
