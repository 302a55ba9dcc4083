//! The text of a key ring: one key per line, the current one first.

use std::fmt::Write as _;

use zeroize::{Zeroize, Zeroizing};

use super::{KEY_BYTES, KeyError, KeyRing, MasterKey, key_id};

/// Makes a new key and its text.
pub(super) fn generate() -> Zeroizing<String> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    aws_lc_rs::rand::fill(key.as_mut()).expect("the system gives random bytes");
    // Room for all of it: growing would leave copies.
    let mut text = Zeroizing::new(String::with_capacity(1024));
    let _ = write!(text, "{HEAD}# key {:08x}\n{PREFIX}", key_id(&key));
    for byte in key.iter() {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

/// Reads a ring; errors name the line, never its content.
pub(super) fn parse(text: &str, source_name: &str) -> Result<KeyRing, KeyError> {
    let mut ring: Option<KeyRing> = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = key(line).map_err(|what| KeyError::Text {
            source_name: source_name.to_owned(),
            what: format!("line {number}: {what}"),
        })?;
        ring = Some(match ring {
            None => KeyRing::new(key),
            Some(ring) => ring.with_older(key),
        });
    }
    ring.ok_or_else(|| KeyError::Text {
        source_name: source_name.to_owned(),
        what: format!("holds no key: a line of {PREFIX:?} and 64 hexadecimal digits"),
    })
}

fn key(line: &str) -> Result<MasterKey, String> {
    let Some(digits) = line.strip_prefix(PREFIX) else {
        return Err(match line.strip_prefix(NAME) {
            Some(_) => "the key's format is newer than this program; use the version that wrote it"
                .to_owned(),
            None => format!("is no key: it must begin with {PREFIX:?}"),
        });
    };
    if digits.len() != 2 * KEY_BYTES {
        let length = digits.len();
        return Err(format!(
            "the key has {length} digits instead of 64: it was cut"
        ));
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let mut pair = [digit(pair[0])?, digit(pair[1])?];
        *byte = pair[0] << 4 | pair[1];
        pair.zeroize();
    }
    Ok(MasterKey::new(&bytes))
}

fn digit(digit: u8) -> Result<u8, String> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err("the key holds what is no hexadecimal digit".to_owned()),
    }
}

const HEAD: &str = "\
# Master key of a sekisho store: it opens every private key in it.
# Keep it secret, keep a copy elsewhere: without it the store is lost.
# The first key seals; further lines, older keys, only open.
";
const NAME: &str = "sekisho-master-key-";
const PREFIX: &str = "sekisho-master-key-1:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let (one, other) = (generate(), generate());
        assert_ne!(*one, *other);
        let ring = parse(&one, "test").unwrap();
        assert!(one.contains(&format!("# key {:08x}", ring.current())));
        let both = parse(&format!("{}\r\n{}", *other, *one), "test").unwrap();
        assert_eq!(both.current(), parse(&other, "test").unwrap().current());
        assert_eq!(both.keys.len(), 2);
        assert_eq!(both.keys[1].id(), ring.current());
    }

    #[test]
    fn names_the_line_and_not_the_key() {
        let digits = "0123456789abcdef".repeat(4);
        for (text, wanted) in [
            (String::new(), "no key"),
            ("# only a comment\n".into(), "no key"),
            (digits.clone(), "line 1: is no key"),
            (
                format!("#\n{PREFIX}{}", &digits[..40]),
                "line 2: the key has 40",
            ),
            (format!("{PREFIX}{}zz", &digits[..62]), "hexadecimal"),
            (format!("{PREFIX}{}é", &digits[..62]), "hexadecimal"),
            (format!("sekisho-master-key-2:{digits}"), "newer"),
        ] {
            let error = parse(&text, "master.key").unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
            assert!(error.starts_with("master.key: "), "{error}");
            assert!(!error.contains("0123"), "{error}");
        }
    }
}
