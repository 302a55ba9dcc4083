use sekisho_testkit::{Key, Pair, TestCa};

use super::*;

const NOW: i64 = 1_800_000_000;
const VALID: Dates = Dates::ValidAt(NOW);

fn ca() -> TestCa {
    TestCa::new()
}

fn pair(ca: &TestCa) -> Pair {
    ca.issue(&["a.example", "*.b.example"], Key::P256)
}

fn parse(chain: &str, key: &str) -> Result<Credential, CredentialError> {
    Credential::parse(chain.as_bytes(), key.as_bytes(), VALID)
}

/// The certificates of a PEM text.
fn sections(pem: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----\n";
    let text = pem.replace("\r\n", "\n");
    text.split_inclusive(end).map(str::to_owned).collect()
}

fn to_pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for (index, three) in der.chunks(3).enumerate() {
        if index % 16 == 0 {
            text.push('\n');
        }
        let bits = (0..3).fold(0, |bits: usize, at| {
            bits << 8 | usize::from(three.get(at).copied().unwrap_or(0))
        });
        for at in 0..4 {
            match at <= three.len() {
                true => text.push(ALPHABET[bits >> (18 - 6 * at) & 63].into()),
                false => text.push('='),
            }
        }
    }
    format!("-----BEGIN {label}-----{text}\n-----END {label}-----\n")
}

/// A DER element with a long form of length.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
    [&[tag, 0x82][..], &length, contents].concat()
}

fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let parts = [vec![2, 1, 0], element(0x30, algorithm), element(4, key)];
    element(0x30, &parts.concat())
}

#[test]
fn every_served_type_passes() {
    let ca = ca();
    for (key, key_type) in [
        (Key::P256, KeyType::Ecdsa),
        (Key::P384, KeyType::Ecdsa),
        (Key::Ed25519, KeyType::Ed25519),
        (Key::Rsa2048, KeyType::Rsa),
    ] {
        let pair = ca.issue(&["A.example", "*.b.example", "192.0.2.1"], key);
        let credential = parse(&pair.chain_pem(), &pair.key_pem()).unwrap();
        assert_eq!(credential.key_type(), key_type);
        assert_eq!(credential.chain(), pair.chain);
        let names: Vec<_> = credential.names().iter().map(HostPattern::as_str).collect();
        assert_eq!(names, ["a.example", "*.b.example"]);
        assert!(credential.notes().is_empty(), "{:?}", credential.notes());
        let stored = credential.into_stored(CredentialId::from_u64(1));
        assert_eq!(stored.key.secret().expose(), pair.key_der().secret_der());
        assert!(stored.not_before < NOW && NOW < stored.not_after);
    }
}

#[test]
fn der_and_bundles_pass() {
    let pair = pair(&ca());
    let chain: Vec<u8> = pair.chain.iter().flat_map(|der| der.to_vec()).collect();
    let key = pair.key_der();
    let credential = Credential::parse(&chain, key.secret_der(), VALID).unwrap();
    assert_eq!(credential.chain(), pair.chain);
    for bundle in [
        format!("{}{}", pair.chain_pem(), pair.key_pem()),
        format!("{}{}", pair.key_pem(), pair.chain_pem()),
    ] {
        let credential = Credential::parse(bundle.as_bytes(), bundle.as_bytes(), VALID).unwrap();
        assert_eq!(credential.chain(), pair.chain);
    }
    // Each file holds both: what is not asked for is passed over.
    let both = format!("{}{}", pair.chain_pem(), pair.key_pem());
    parse(&both, &both).unwrap();
}

#[test]
fn old_forms_of_keys_become_pkcs8() {
    let ca = ca();
    for (key, label) in [
        (Key::P256, "EC PRIVATE KEY"),
        (Key::P384, "EC PRIVATE KEY"),
        (Key::Rsa2048, "RSA PRIVATE KEY"),
    ] {
        let pair = ca.issue(&["a.example"], key);
        let der = pair.key_der();
        let inner = super::super::key::pkcs8_inner(der.secret_der()).unwrap();
        let credential = parse(&pair.chain_pem(), &to_pem(label, inner)).unwrap();
        let stored = credential.into_stored(CredentialId::from_u64(1));
        assert_eq!(stored.key.secret().expose(), der.secret_der(), "{label}");
        // DER without a label is told apart too.
        Credential::parse(pair.chain_pem().as_bytes(), inner, VALID).unwrap();
    }
}

#[test]
fn text_around_and_line_ends_do_not_matter() {
    let pair = pair(&ca());
    let chain = format!(
        "Bag Attributes: \u{fffd}\nsubject=CN = a\n\n{}\ntrailing",
        pair.chain_pem()
    );
    let crlf = chain.replace('\n', "\r\n");
    let key = format!(
        "  \n-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}",
        pair.key_pem()
    );
    let cr = chain.replace('\n', "\r");
    let marked = format!("\u{feff}{}", pair.chain_pem());
    for chain in [chain, crlf, cr, marked] {
        parse(&chain, &key).unwrap();
        parse(&chain, &key.replace('\n', "\r\n")).unwrap();
        parse(&chain, &key.replace('\n', "\r")).unwrap();
    }
}

#[test]
fn the_chain_is_repaired() {
    let ca = ca();
    let pair = pair(&ca);
    let root = ca.root_pem();
    let parts = sections(&pair.chain_pem());
    let (leaf, issuer) = (&parts[0], &parts[1]);
    let other = TestCa::new().root_pem();
    for (chain, noted) in [
        (format!("{issuer}{leaf}"), None),
        (format!("{root}{issuer}{leaf}"), None),
        (format!("{leaf}{issuer}{root}"), None),
        (format!("{leaf}{issuer}{leaf}{issuer}"), Some("a copy")),
        (format!("{other}{leaf}{issuer}"), Some("does not need")),
    ] {
        let credential = parse(&chain, &pair.key_pem()).unwrap();
        assert_eq!(credential.chain(), pair.chain);
        let notes = credential.notes().join("; ");
        assert_eq!(notes.is_empty(), noted.is_none(), "{notes}");
        assert!(notes.contains(noted.unwrap_or("")), "{notes}");
    }
}

#[test]
fn an_issuer_of_the_right_name_with_another_key_is_none() {
    let (ca, other) = (ca(), TestCa::new());
    let pair = pair(&ca);
    let leaf = &sections(&pair.chain_pem())[0];
    let imposter = sections(&other.issue(&["x.example"], Key::P256).chain_pem())[1].clone();
    let error = parse(&format!("{leaf}{imposter}"), &pair.key_pem()).unwrap_err();
    assert!(error.to_string().contains("has another key"), "{error}");
}

#[test]
fn a_self_signed_leaf_stands_alone() {
    let key = rcgen_key();
    let params = rcgen::CertificateParams::new(vec!["self.example".to_owned()]).unwrap();
    let leaf = params.self_signed(&key).unwrap();
    let credential = Credential::parse(
        leaf.pem().as_bytes(),
        key.serialize_pem().as_bytes(),
        Dates::Any,
    )
    .unwrap();
    assert_eq!(credential.chain().len(), 1);
    assert_eq!(credential.names()[0].as_str(), "self.example");
}

fn rcgen_key() -> rcgen::KeyPair {
    rcgen::KeyPair::generate().unwrap()
}

#[test]
fn what_is_wrong_is_said() {
    let ca = ca();
    let pair = pair(&ca);
    let second = ca.issue(&["z.example"], Key::P256);
    let (chain, key) = (pair.chain_pem(), pair.key_pem());
    let leaf = &sections(&chain)[0];
    let cut = &chain[..chain.len() / 3];
    let garbled = chain.replacen("MII", "M*I", 1);
    let swapped = chain.replacen("-----END CERTIFICATE-----", "-----END OTHER-----", 1);
    let broken = to_pem("CERTIFICATE", b"\x30\x03\x02\x01\x01");
    let ec_rubbish = to_pem("PRIVATE KEY", b"\x30\x03\x02\x01\x00");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let legacy = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let rubbish = "x".repeat(1_000_000);
    let glued = chain.replace("-----\n-----BEGIN", "----------BEGIN");
    for (chain, key, wanted) in [
        ("", &key[..], "no certificate"),
        (&chain, "", "no private key"),
        (&rubbish, &key, "no certificate"),
        (&chain, &rubbish, "no private key"),
        (&"0".repeat(2 << 20), &key, "at most 1048576"),
        (
            cut,
            &key,
            "line 1: BEGIN CERTIFICATE has no END CERTIFICATE",
        ),
        (&garbled, &key, "line 2: what is no Base64"),
        (&swapped, &key, "line 1: BEGIN CERTIFICATE has no END"),
        (
            "-----END CERTIFICATE-----",
            &key,
            "line 1: END CERTIFICATE without",
        ),
        (&glued, &key, "END and BEGIN stand on one line"),
        (&broken, &key, "certificate 1 is broken"),
        (&format!("{leaf}{broken}"), &key, "certificate 2 is broken"),
        (&chain, &second.key_pem(), "does not belong to any of the 2"),
        (&chain, &format!("{key}{key}"), "2 private keys"),
        (&chain, encrypted, "encrypted with a password"),
        (&chain, legacy, "encrypted with a password"),
        (&chain, &ec_rubbish, "private key is broken"),
        (leaf, &key, "was issued by CN=sekisho test intermediate"),
        (
            &format!("{chain}{}", second.chain_pem()),
            &key,
            "one pair per file",
        ),
    ] {
        let error = parse(chain, key).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn der_rubbish_is_refused() {
    let pair = pair(&ca());
    let chain = pair.chain_pem();
    let key = pair.key_der();
    let mut rubbish = vec![0x30; 1_000_000];
    let refused = |chain: &[u8], key: &[u8]| Credential::parse(chain, key, VALID).unwrap_err();
    refused(&rubbish, key.secret_der());
    refused(chain.as_bytes(), &rubbish);
    rubbish.fill(0xff);
    refused(&rubbish, key.secret_der());
    let leaf = &pair.chain[0];
    for end in [1, 2, 10, 100, leaf.len() - 1] {
        refused(&leaf[..end], key.secret_der());
    }
    for end in 0..key.secret_der().len() {
        refused(chain.as_bytes(), &key.secret_der()[..end]);
    }
    // An encrypted key without its label.
    let encrypted = element(
        0x30,
        &[element(0x30, &[6, 1, 0]), element(4, &[0; 16])].concat(),
    );
    assert_eq!(
        refused(chain.as_bytes(), &encrypted),
        CredentialError::EncryptedKey
    );
}

#[test]
fn a_pkcs12_file_is_named_as_such() {
    let pair = pair(&ca());
    let file = element(0x30, &[&[2, 1, 3][..], &element(0x30, &[6, 1, 0])].concat());
    for (chain, key) in [
        (&file[..], pair.key_pem().as_bytes()),
        (pair.chain_pem().as_bytes(), &file[..]),
    ] {
        let error = Credential::parse(chain, key, VALID).unwrap_err();
        assert_eq!(error, CredentialError::Pkcs12);
    }
}

#[test]
fn other_types_of_keys_are_refused_by_name() {
    let chain = pair(&ca()).chain_pem();
    let ec = |curve: &[u8]| [b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", curve].concat();
    let modulus = [&[0][..], &[0xff; 128]].concat();
    let small = [vec![2, 1, 0], element(2, &modulus), element(2, &[3])].concat();
    let small = element(0x30, &small);
    for (key, wanted) in [
        (pkcs8(&ec(b"\x06\x05\x2b\x81\x04\x00\x23"), b""), "P-521"),
        (
            pkcs8(&ec(b"\x06\x05\x2b\x81\x04\x00\x0a"), b""),
            "secp256k1",
        ),
        (pkcs8(b"\x06\x03\x2b\x65\x71", b""), "Ed448"),
        (pkcs8(b"\x06\x03\x2b\x65\x6e", b""), "X25519"),
        (
            pkcs8(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", b""),
            "RSA-PSS",
        ),
        (pkcs8(b"\x06\x07\x2a\x86\x48\xce\x38\x04\x01", b""), "DSA"),
        (pkcs8(b"\x06\x01\x00", b""), "unknown type"),
        (small, "1024 bits"),
    ] {
        let error = Credential::parse(chain.as_bytes(), &key, VALID).unwrap_err();
        assert!(error.to_string().contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn dates_count_unless_any_pass() {
    let ca = ca();
    for (from, to, wanted) in [
        ((2020, 1, 1), (2021, 1, 1), "expired on"),
        ((2050, 1, 1), (2060, 1, 1), "not valid before"),
    ] {
        let pair = ca.issue_valid(&["a.example"], Key::P256, from, to);
        let error = parse(&pair.chain_pem(), &pair.key_pem()).unwrap_err();
        let year = if wanted == "expired on" {
            "2021"
        } else {
            "2050"
        };
        let text = error.to_string();
        assert!(text.contains(wanted) && text.contains(year), "{text}");
        assert!(text.contains("--allow-expired"), "{text}");
        let (chain, key) = (pair.chain_pem(), pair.key_pem());
        Credential::parse(chain.as_bytes(), key.as_bytes(), Dates::Any).unwrap();
    }
}

#[test]
fn long_chains_are_refused() {
    let ca = ca();
    let pair = pair(&ca);
    let many: String = (0..51).map(|_| TestCa::new().root_pem()).collect();
    let chain = format!("{}{many}", pair.chain_pem());
    let error = parse(&chain, &pair.key_pem()).unwrap_err();
    assert!(
        matches!(
            error,
            CredentialError::TooMany {
                certificates: 53,
                ..
            }
        ),
        "{error}"
    );
    let names: Vec<String> = (0..4000).map(|n| format!("name-{n}.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = ca.issue(&names, Key::P256);
    let error = parse(&pair.chain_pem(), &pair.key_pem()).unwrap_err();
    assert!(
        matches!(
            error,
            CredentialError::TooLarge {
                what: "the chain",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_key_never_shows() {
    let pair = pair(&ca());
    let credential = parse(&pair.chain_pem(), &pair.key_pem()).unwrap();
    assert!(format!("{credential:?}").contains("key: Secret(…)"));
}

/// Found by review: an unknown algorithm counted as a good signature.
#[test]
fn a_signature_that_no_client_can_check_is_none() {
    let pair = pair(&ca());
    let mut leaf = pair.chain[0].to_vec();
    let known = b"\x2a\x86\x48\xce\x3d\x04\x03\x02";
    let places = (0..leaf.len()).filter(|at| leaf[*at..].starts_with(known));
    let places: Vec<_> = places.collect();
    assert_eq!(places.len(), 2);
    // ECDSA with SHA-224 in the place of SHA-256.
    places.into_iter().for_each(|at| leaf[at + 7] = 1);
    let chain = [&leaf[..], &pair.chain[1]].concat();
    let error = Credential::parse(&chain, pair.key_der().secret_der(), VALID).unwrap_err();
    let wanted = "algorithm that clients do not take";
    assert!(error.to_string().contains(wanted), "{error}");
}
