//! PEM as others write it.

use std::sync::LazyLock;

use proptest::prelude::*;
use rustls_pki_types::CertificateDer;
use sekisho_certs::credential::{Credential, Dates};
use sekisho_certs::der;
use sekisho_testkit::{Key, Pair, TestCa};

static PAIR: LazyLock<Pair> = LazyLock::new(|| TestCa::new().issue(&["a.test"], Key::P256));

/// Breaks the lines of each section anew and writes text between sections.
fn rewritten(pem: &str, length: usize, end: &str, between: &str) -> String {
    let mut text = String::new();
    let mut body = String::new();
    for line in pem.lines() {
        match line.starts_with("-----") {
            false => body.push_str(line),
            true => {
                for piece in body.as_bytes().chunks(length) {
                    text += &(String::from_utf8(piece.to_vec()).unwrap() + end);
                }
                let is_begin = line.starts_with("-----BEGIN");
                let before = if is_begin {
                    format!("{between}{end}")
                } else {
                    String::new()
                };
                text += &(before + line + end);
                body.clear();
            }
        }
    }
    text
}

proptest! {
    #[test]
    fn line_lengths_ends_and_text_between_do_not_matter(
        length in 1..200_usize, end in "\r?\n", between in "[ a-zA-Z0-9=:/+]{0,40}", key_first: bool,
    ) {
        let [chain, key] = [PAIR.chain_pem(), PAIR.key_pem()]
            .map(|pem| rewritten(&pem, length, &end, &between));
        let bundle = if key_first { key + &chain } else { chain + &key };
        let bundle = bundle.as_bytes();
        let credential = Credential::parse(bundle, bundle, Dates::Any).unwrap();
        prop_assert_eq!(credential.chain(), &PAIR.chain[..]);
    }

    #[test]
    fn any_bytes_are_refused_with_a_reason(bytes in any::<Vec<u8>>()) {
        prop_assert!(Credential::parse(&bytes, &bytes, Dates::Any).is_err());
    }

    #[test]
    fn a_changed_byte_never_gives_another_key(at: prop::sample::Index, byte: u8) {
        let mut bundle = (PAIR.chain_pem() + &PAIR.key_pem()).into_bytes();
        let at = at.index(bundle.len());
        bundle[at] = byte;
        let parsed = Credential::parse(&bundle, &bundle, Dates::Any);
        let spki = parsed.ok().map(|found| spki(found.chain()));
        prop_assert!(spki.is_none_or(|spki| spki == self::spki(&PAIR.chain)));
        // The short way compares the key's bits alone: a load does the rest.
        let _ = Credential::parse_stored_bundle(&bundle);
    }
}

fn spki(chain: &[CertificateDer<'_>]) -> Vec<u8> {
    der::leaf(&chain[0]).unwrap().spki.to_vec()
}
