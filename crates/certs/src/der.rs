//! The few fields of a certificate that a load needs (RFC 5280, section 4.1).
//!
//! A full parse with all extensions costs more than the rest of a load:
//! [`crate::credential::validate`] makes it once, a load only walks the header.

use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// Fields of a certificate, borrowed from its DER.
pub struct Leaf<'a> {
    /// Name of the issuer, without tag and length.
    pub issuer: &'a [u8],
    /// Name of the subject, without tag and length.
    pub subject: &'a [u8],
    /// The whole SubjectPublicKeyInfo, tag and length included.
    pub spki: &'a [u8],
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
}

/// Walks to the public key. None if the bytes are no certificate.
pub fn leaf(der: &[u8]) -> Option<Leaf<'_>> {
    let header = header(der)?;
    let (not_before, validity) = time(header.validity)?;
    let (not_after, _) = time(validity)?;
    Some(Leaf {
        issuer: header.issuer,
        subject: header.subject,
        spki: header.spki,
        not_before,
        not_after,
    })
}

/// Returns the SubjectPublicKeyInfo of a certificate; the dates are not read.
pub fn spki(der: &[u8]) -> Option<&[u8]> {
    Some(header(der)?.spki)
}

/// Tells whether a DNS name of a certificate is `name`, or the wildcard one label above
/// it. `name` is in lower case. False if the bytes are no certificate.
pub fn names(der: &[u8], name: &str) -> bool {
    let parent = name.split_once('.').map(|(_, parent)| parent);
    // As clients do: no wildcard stands for all hosts of a top-level domain.
    let parent = parent.filter(|parent| parent.contains('.'));
    let mut rest = alternative_names(der).unwrap_or_default();
    while let Some((tag, text, after)) = any_element(rest) {
        let is_exact = text.eq_ignore_ascii_case(name.as_bytes());
        let above = text.strip_prefix(b"*.");
        let is_above = above
            .zip(parent)
            .is_some_and(|(above, parent)| above.eq_ignore_ascii_case(parent.as_bytes()));
        if tag == DNS_NAME && (is_exact || is_above) {
            return true;
        }
        rest = after;
    }
    false
}

/// Parts of a certificate in their order.
struct Header<'a> {
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    spki: &'a [u8],
    after: &'a [u8],
}

fn header(der: &[u8]) -> Option<Header<'_>> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut tbs, _) = element(certificate, SEQUENCE)?;
    if tbs.first() == Some(&VERSION) {
        tbs = element(tbs, VERSION)?.1;
    }
    let (_, rest) = element(tbs, INTEGER)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (issuer, rest) = element(rest, SEQUENCE)?;
    let (validity, rest) = element(rest, SEQUENCE)?;
    let (subject, spki_on) = element(rest, SEQUENCE)?;
    let (_, after) = element(spki_on, SEQUENCE)?;
    Some(Header {
        issuer,
        validity,
        subject,
        spki: &spki_on[..spki_on.len() - after.len()],
        after,
    })
}

/// Returns the GeneralNames of the subject (RFC 5280, section 4.2.1.6).
fn alternative_names(der: &[u8]) -> Option<&[u8]> {
    let mut rest = header(der)?.after;
    // Unique identifiers may stand before the extensions.
    while rest.first()? != &EXTENSIONS {
        rest = any_element(rest)?.2;
    }
    let (extensions, _) = element(rest, EXTENSIONS)?;
    let (mut extensions, _) = element(extensions, SEQUENCE)?;
    loop {
        let (extension, after) = element(extensions, SEQUENCE)?;
        let (id, value) = element(extension, OID)?;
        if id == SUBJECT_ALT_NAME {
            let value = element(value, BOOLEAN).map_or(value, |(_, value)| value);
            let (names, _) = element(value, OCTET_STRING)?;
            return Some(element(names, SEQUENCE)?.0);
        }
        extensions = after;
    }
}

/// Splits concatenated DER elements. None if the last one is cut.
pub fn split(mut der: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::with_capacity(2);
    while !der.is_empty() {
        let (_, rest) = element(der, SEQUENCE)?;
        parts.push(&der[..der.len() - rest.len()]);
        der = rest;
    }
    Some(parts)
}

/// Returns modulus and exponent of an RSA SubjectPublicKeyInfo (RFC 8017,
/// appendix A.1.1), without leading zeros.
pub fn rsa_public(spki: &[u8]) -> Option<[&[u8]; 2]> {
    let (spki, _) = element(spki, SEQUENCE)?;
    let (_, rest) = element(spki, SEQUENCE)?;
    let (bits, _) = element(rest, BIT_STRING)?;
    let (key, _) = element(bits.get(1..)?, SEQUENCE)?;
    let (modulus, rest) = element(key, INTEGER)?;
    let (exponent, _) = element(rest, INTEGER)?;
    Some([trimmed(modulus), trimmed(exponent)])
}

/// Returns the modulus of an RSA private key without leading zeros. The key is
/// PKCS#8 (RFC 5958, section 2) or PKCS#1 (RFC 8017, appendix A.1.2).
pub fn rsa_private_modulus(der: &[u8]) -> Option<&[u8]> {
    Some(trimmed(element(pkcs1(der)?.1, INTEGER)?.0))
}

/// Returns the eight numbers of an RSA private key of two primes, without
/// leading zeros. Their order is that of RFC 8017, appendix A.1.2. None if one
/// is missing or zero.
pub fn rsa_private(der: &[u8]) -> Option<[&[u8]; 8]> {
    let (version, mut rest) = pkcs1(der)?;
    let mut numbers = [&[][..]; 8];
    for number in &mut numbers {
        let (integer, after) = element(rest, INTEGER)?;
        *number = trimmed(integer);
        rest = after;
    }
    let is_whole = version == [0] && rest.is_empty();
    (is_whole && numbers.iter().all(|number| !number.is_empty())).then_some(numbers)
}

/// Returns version and rest of an RSAPrivateKey, bare or inside PKCS#8.
fn pkcs1(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (document, _) = element(der, SEQUENCE)?;
    let (version, rest) = element(document, INTEGER)?;
    let Some((_, inner)) = element(rest, SEQUENCE) else {
        return Some((version, rest));
    };
    let (document, _) = element(element(inner, OCTET_STRING)?.0, SEQUENCE)?;
    element(document, INTEGER)
}

fn trimmed(integer: &[u8]) -> &[u8] {
    let zeros = integer.iter().take_while(|&&byte| byte == 0).count();
    &integer[zeros..]
}

/// Splits off the first element: its contents, if it has that tag, and what
/// follows it.
pub fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, contents, rest) = any_element(der)?;
    (first == tag).then_some((contents, rest))
}

/// Splits off the first element: its tag, its contents, and what follows it.
fn any_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (
                bytes
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
                rest,
            )
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// Reads a UTCTime or a GeneralizedTime as seconds since the Unix epoch.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (rest, time) = ASN1Time::from_der(der).ok()?;
    Some((time.timestamp(), rest))
}

/// The tag of INTEGER.
pub const INTEGER: u8 = 0x02;
/// The tag of BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// The tag of OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
const BOOLEAN: u8 = 0x01;
/// The tag of OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The tag of a DNS name among GeneralNames.
const DNS_NAME: u8 = 0x82;
const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustls_pki_types::ServerName;
    use sekisho_testkit::{Key, TestCa};

    use super::*;

    #[test]
    fn dates_become_seconds() {
        for (text, seconds) in [
            (&b"\x17\x0d700101000000Z"[..], 0),
            (b"\x17\x0d491231235959Z", 2_524_607_999),
            (b"\x17\x0d500101000000Z", -631_152_000),
            (b"\x18\x0f20240229120000Z", 1_709_208_000),
            (b"\x18\x0f99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(time(text).expect("a time").0, seconds);
        }
        assert!(time(b"\x17\x0d701301000000Z").is_none());
        assert!(time(b"\x17\x0c70010100000Z").is_none());
    }

    /// The walk says yes only where webpki does.
    #[test]
    fn names_are_those_that_webpki_finds() {
        let ca = TestCa::new();
        let pair = ca.issue(&["a.test", "Upper.TEST", "*.b.test", "*.test"], Key::P256);
        let parsed = webpki::EndEntityCert::try_from(&pair.chain[0]).unwrap();
        for (name, expected) in [
            ("a.test", true),
            ("upper.test", true),
            ("x.b.test", true),
            ("b.test", false),
            ("x.y.b.test", false),
            ("xb.test", false),
            ("other.test", false),
            ("test", false),
            ("a.test.example", false),
        ] {
            assert_eq!(names(&pair.chain[0], name), expected, "{name}");
            let name = ServerName::try_from(name).unwrap();
            let found = parsed.verify_is_valid_for_subject_name(&name);
            assert_eq!(found.is_ok(), expected, "{name:?}");
        }
        for end in 0..pair.chain[0].len() {
            assert!(!names(&pair.chain[0][..end], "a.test"), "{end}");
        }
    }

    #[test]
    fn cut_elements_are_none() {
        let whole = b"\x30\x05\x02\x01\x01\x02\x00";
        assert!(split(whole).is_some());
        for end in 1..whole.len() {
            assert!(split(&whole[..end]).is_none(), "{end}");
        }
        assert!(element(b"\x30\x84\xff\xff\xff\xff", SEQUENCE).is_none());
    }
}
