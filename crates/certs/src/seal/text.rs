//! The text of a key ring: one key per line, the newest last.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

use super::{KEY_BYTES, KeyError, KeyRing, MasterKey, key_id};

/// Adds a new key behind those of a text, which may be empty; gives its id too.
pub(super) fn extend(text: &str) -> (Zeroizing<String>, u32) {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    aws_lc_rs::rand::fill(key.as_mut()).expect("the system gives random bytes");
    // Room for all of it: growing would leave copies.
    let mut longer = Zeroizing::new(String::with_capacity(text.len() + 1024));
    longer.push_str(if text.is_empty() { HEAD } else { text });
    if !longer.ends_with('\n') {
        longer.push('\n');
    }
    let id = key_id(&key);
    let _ = write!(longer, "# key {id:08x}\n{PREFIX}");
    HEXLOWER.encode_append(key.as_ref(), &mut longer);
    longer.push('\n');
    (longer, id)
}

/// Takes the key of that id out of a text, with the comment that [`extend`]
/// wrote above it.
pub(super) fn without(text: &str, id: u32) -> Zeroizing<String> {
    let mut shorter = Zeroizing::new(String::with_capacity(text.len() + 1));
    let comment = format!("# key {id:08x}");
    for line in text.lines() {
        let is_it = key(line.trim()).is_ok_and(|key| key.id() == id);
        if !is_it && line.trim() != comment {
            shorter.push_str(line);
            shorter.push('\n');
        }
    }
    shorter
}

/// Reads a ring; errors name the line, never its content.
pub(super) fn parse(text: &str, source: impl Display) -> Result<KeyRing, KeyError> {
    let mut ring = KeyRing { keys: Vec::new() };
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = key(line);
        let key =
            key.map_err(|what| KeyError::unusable(&source, format_args!("line {number}: {what}")))?;
        ring.add(Arc::new(key));
    }
    if ring.keys.is_empty() {
        let what = format_args!("it holds no key: a line of {PREFIX:?} and 64 hexadecimal digits");
        return Err(KeyError::unusable(source, what));
    }
    Ok(ring)
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
    match HEXLOWER_PERMISSIVE.decode_mut(digits.as_bytes(), bytes.as_mut()) {
        Ok(_) => Ok(MasterKey::new(&bytes)),
        Err(_) => Err("the key holds what is no hexadecimal digit".to_owned()),
    }
}

const HEAD: &str = "\
# Master key of a sekisho store: it opens every private key in it.
# Keep it secret, keep a copy elsewhere: without it the store is lost.
# One key per line, the newest last. All open; the store says which one seals.
";
const NAME: &str = "sekisho-master-key-";
const PREFIX: &str = "sekisho-master-key-1:";

#[cfg(test)]
mod tests {
    use super::*;

    fn generate() -> Zeroizing<String> {
        extend("").0
    }

    #[test]
    fn reads_what_it_writes() {
        let (one, other) = (generate(), generate());
        assert_ne!(*one, *other);
        let ring = parse(&one, "test").unwrap();
        assert!(one.contains(&format!("# key {:08x}", ring.first())));
        let both = parse(&format!("{}\r\n{}", *other, *one), "test").unwrap();
        assert_eq!(both.first(), parse(&other, "test").unwrap().first());
        assert_eq!(both.keys.len(), 2);
        assert_eq!(both.keys[1].id(), ring.first());
    }

    #[test]
    fn a_key_is_added_last_and_taken_out_again() {
        let one = generate();
        let first = parse(&one, "test").unwrap().first();
        let (two, added) = extend(&one);
        let ring = parse(&two, "test").unwrap();
        assert_eq!(ring.ids().collect::<Vec<_>>(), [first, added]);
        assert_eq!(ring.newest(), added);
        assert_eq!(*without(&two, added), *one);
        let left = without(&two, first);
        assert_eq!(parse(&left, "test").unwrap().first(), added);
        assert!(!left.contains(&format!("{first:08x}")) && left.starts_with(HEAD));
        // A text whose last line an editor left without its end.
        let (three, _) = extend(two.trim_end());
        assert_eq!(parse(&three, "test").unwrap().keys.len(), 3);
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
            assert!(error.starts_with("master key master.key: "), "{error}");
            assert!(!error.contains("0123"), "{error}");
        }
    }
}
