//! Text of clients in a line, escaped and bounded.

use std::fmt;

/// Text that clients wrote, cut after a bound.
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    cut: bool,
}

impl<'a> Text<'a> {
    /// Takes a text that is bounded elsewhere.
    pub(super) fn whole(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::new(text.as_ref(), usize::MAX)
    }

    /// Takes at most `longest` bytes.
    pub(super) fn new(bytes: &'a [u8], longest: usize) -> Self {
        Self {
            bytes: &bytes[..bytes.len().min(longest)],
            cut: bytes.len() > longest,
        }
    }

    /// Writes the content of a JSON string (RFC 8259, section 7) in ASCII: some
    /// readers take U+2028 and the like for the end of a line. Bytes that are
    /// not UTF-8 become U+FFFD.
    pub(super) fn write_json(&self, line: &mut Vec<u8>) {
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                json_character(line, character);
            }
            if !chunk.invalid().is_empty() {
                line.extend_from_slice(b"\\ufffd");
            }
        }
        if self.cut {
            line.extend_from_slice(CUT);
        }
    }

    /// Writes quotes, backslashes, and all bytes that are not printable ASCII as
    /// `\xHH`.
    pub(super) fn write_combined(&self, line: &mut Vec<u8>) {
        self.write_escaped(line, |byte| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x7f..));
    }

    /// Writes a field without quotes: spaces are escaped, too.
    pub(super) fn write_word(&self, line: &mut Vec<u8>) {
        self.write_escaped(
            line,
            |byte| matches!(byte, b'"' | b'\\' | 0..=0x20 | 0x7f..),
        );
    }

    fn write_escaped(&self, line: &mut Vec<u8>, is_escaped: impl Fn(u8) -> bool) {
        for byte in self.bytes {
            match is_escaped(*byte) {
                true => put(line, format_args!("\\x{byte:02X}")),
                false => line.push(*byte),
            }
        }
        if self.cut {
            line.extend_from_slice(CUT);
        }
    }
}

/// Writes formatted text, which must need no escaping.
pub(super) fn put(line: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // A vector takes everything.
    let _ = std::io::Write::write_fmt(line, text);
}

/// Shows a value; `none` if there is none.
pub(super) fn or(value: Option<impl fmt::Display>, none: &'static str) -> impl fmt::Display {
    fmt::from_fn(move |f| match &value {
        Some(value) => fmt::Display::fmt(value, f),
        None => f.write_str(none),
    })
}

fn json_character(line: &mut Vec<u8>, character: char) {
    match character {
        '"' => line.extend_from_slice(b"\\\""),
        '\\' => line.extend_from_slice(b"\\\\"),
        ' '..='~' => line.push(character as u8),
        other => {
            let mut units = [0; 2];
            for unit in other.encode_utf16(&mut units) {
                put(line, format_args!("\\u{unit:04x}"));
            }
        }
    }
}

/// End of a text that was cut.
const CUT: &[u8] = b"...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_breaks_a_line_or_a_text() {
        let all: Vec<u8> = (0..=255).chain("é\u{2028}😀".bytes()).collect();
        let text = Text::new(&all, 1 << 10);
        let mut json = b"\"".to_vec();
        text.write_json(&mut json);
        json.push(b'"');
        let read: String = serde_json::from_slice(&json).unwrap();
        assert!(read.starts_with("\0\u{1}") && read.ends_with("é\u{2028}😀"));
        assert!(json.iter().all(|byte| (0x20..0x7f).contains(byte)));

        let mut combined = Vec::new();
        text.write_combined(&mut combined);
        assert!(combined.iter().all(|byte| (0x20..0x7f).contains(byte)));
        assert!(!combined.contains(&b'"'));
        let combined = String::from_utf8(combined).unwrap();
        assert!(combined.starts_with("\\x00\\x01") && combined.ends_with("\\xF0\\x9F\\x98\\x80"));
        assert!(combined.contains("!\\x22#") && combined.contains("[\\x5C]"));
    }

    #[test]
    fn a_long_text_is_cut() {
        for (length, written) in [(3, "aaa"), (4, "aaa...")] {
            let bytes = vec![b'a'; length];
            let text = Text::new(&bytes, 3);
            let (mut json, mut combined) = (Vec::new(), Vec::new());
            text.write_json(&mut json);
            text.write_combined(&mut combined);
            assert_eq!(
                (&*json, &*combined),
                (written.as_bytes(), written.as_bytes())
            );
        }
    }
}
