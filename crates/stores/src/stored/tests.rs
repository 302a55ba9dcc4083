use super::*;
use sekisho_certs::credential::{CredentialId, KeyType};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{Site, Tenant, TlsPolicy, TlsVersion};
use sekisho_testkit::contract::fixture::client_ca;

fn credential(number: u64, key_type: KeyType, key: SealedBytes) -> StoredCredential<SealedBytes> {
    StoredCredential {
        id: CredentialId::from_u64(number),
        version: number + 1,
        key_type,
        chain: vec![vec![0x30, 1, 0].into(), vec![0x30, 0].into()],
        key,
        not_before: -5,
        not_after: 1 << 40,
        origin: None,
    }
}

fn sealed(fill: u8) -> SealedBytes {
    SealedBytes {
        key_id: 0xfeed,
        nonce: [fill; 12],
        bytes: vec![fill; 40],
    }
}

fn found() -> Found<SealedBytes> {
    let mut record = HostRecord::new(HostPattern::parse("*.example.com").unwrap());
    record.tenant = Tenant::parse("Küche & Söhne").unwrap();
    record.site = Some(Site {
        format: 9,
        json: r#"{"root":"/srv"}"#.into(),
    });
    record.suspended = Some(Site {
        format: 1,
        json: r#"{"status":503}"#.into(),
    });
    record.tls = TlsPolicy {
        min: TlsVersion::Tls13,
        client_ca: Some(client_ca(1)),
        client_optional: true,
    };
    record.version = 1 << 60;
    let first = credential(7, KeyType::Ecdsa, sealed(1));
    let second = credential((1 << 63) - 1, KeyType::Rsa, sealed(2));
    record.references.set(KeyType::Ecdsa, Some(first.id));
    record.references.set(KeyType::Rsa, Some(second.id));
    Found {
        record,
        credentials: vec![second, first],
        shadowed: true,
        fresh_for: None,
    }
}

#[test]
fn what_was_found_comes_back() {
    let mut bare = found();
    bare.record = HostRecord::new(HostPattern::parse("a.example.com").unwrap());
    bare.record.disabled = true;
    bare.credentials.clear();
    bare.shadowed = false;
    for found in [found(), bare] {
        let bytes = write_found(&found).unwrap();
        let read = read_found(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{found:?}"));
        let host = write_host(&found.record, found.shadowed).unwrap();
        assert_eq!(
            read_host(&host).unwrap(),
            (found.record.clone(), found.shadowed)
        );
    }
}

#[test]
fn other_credentials_than_its_own_are_damage() {
    let whole = found();
    let mut missing = whole.clone();
    missing.credentials.pop();
    let mut other = whole.clone();
    other.credentials[0].id = CredentialId::from_u64(3);
    let mut twice = whole.clone();
    twice.credentials[0] = twice.credentials[1].clone();
    let mut of_another_type = whole;
    of_another_type.credentials[0].key_type = KeyType::Ed25519;
    for found in [missing, other, twice, of_another_type] {
        let bytes = write_found(&found).unwrap();
        assert!(matches!(
            read_found(&bytes).unwrap_err(),
            FormError::Damaged(_)
        ));
    }
}

#[test]
fn another_form_is_an_error_that_says_so() {
    let mut bytes = write_found(&found()).unwrap();
    bytes[1] = FORM + 1;
    let error = read_found(&bytes).unwrap_err();
    assert_eq!(error, FormError::Version(FORM + 1));
}

/// Values that version 0.1 wrote before those of form 2.
#[test]
fn values_of_form_1_are_refused() {
    let host = concat!(
        "68010e0d2a2e6578616d706c652e636f6d0f4bc3bc63686520262053c3b6686e6510000000000000",
        "000000000000000007ffffffffffffffff7fffffffffffffff000000090000000f7b22726f6f7422",
        "3a222f737276227d"
    );
    let unhex = |at| u8::from_str_radix(&host[at..at + 2], 16).unwrap();
    let host: Vec<_> = (0..host.len()).step_by(2).map(unhex).collect();
    assert_eq!(read_host(&host).unwrap_err(), FormError::Version(1));
}

#[test]
fn too_much_is_not_written_nor_read() {
    let mut large = found();
    large.record.site = Some(Site {
        format: 1,
        json: "x".repeat(MAX_VALUE).into(),
    });
    assert_eq!(write_found(&large).unwrap_err(), FormError::TooLarge);
    assert_eq!(
        write_host(&large.record, false).unwrap_err(),
        FormError::TooLarge
    );
    let bytes = vec![FOUND; MAX_VALUE + 1];
    assert_eq!(read_found(&bytes).unwrap_err(), FormError::TooLarge);
}

/// Writes what was read of some bytes.
type Again = fn(&[u8]) -> Result<Vec<u8>>;

/// Returns a value of each kind.
fn kinds() -> [(Vec<u8>, Again); 3] {
    let found = found();
    [
        (write_found(&found).unwrap(), |bytes| {
            write_found(&read_found(bytes)?)
        }),
        (write_host(&found.record, true).unwrap(), |bytes| {
            let (record, shadowed) = read_host(bytes)?;
            write_host(&record, shadowed)
        }),
        (write_credential(&found.credentials[0]).unwrap(), |bytes| {
            write_credential(&read_credential(bytes)?)
        }),
    ]
}

/// Each cut, and each byte changed in three ways: an error, or a value that comes back
/// from what is written of it.
#[test]
fn any_bytes_are_a_value_or_an_error() {
    for (bytes, again) in kinds() {
        assert_eq!(again(&bytes).unwrap(), bytes);
        for end in 0..bytes.len() {
            assert!(again(&bytes[..end]).is_err(), "cut at {end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(again(&longer).is_err());
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                if let Ok(written) = again(&bytes) {
                    assert_eq!(again(&written).unwrap(), written, "{at}");
                }
            }
        }
    }
    let host = write_host(&found().record, true).unwrap();
    let end = host.len();
    for (at, part) in [
        (3, "pattern"),
        (end - 1, "shadowed"),
        (end - 24, "disabled"),
    ] {
        let mut host = host.clone();
        host[at] = 0xff;
        assert!(read_host(&host).is_err(), "{part}");
    }
}

/// Memory for a length of 2^64 - 1 can't be had: to set it aside would panic.
#[test]
fn nothing_is_set_aside_for_lengths_that_are_not_there() {
    for (bytes, again) in kinds() {
        let longer = |at: usize| {
            let longest = [[0xff; 9].as_slice(), &[1]].concat();
            [&bytes[..at], &longest, &bytes[at + 1..]].concat()
        };
        let refused = (2..bytes.len()).filter(|at| again(&longer(*at)).is_err());
        // A byte of a text or of a number is no length.
        let refused = refused.count();
        assert!(refused > bytes.len() / 2, "{refused} of {}", bytes.len());
    }
}
