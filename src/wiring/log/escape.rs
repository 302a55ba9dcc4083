//! Log lines without characters that would begin others.

/// Escapes what would begin another line, or move the cursor: peers choose a part of some
/// texts, such as the names in an upstream's certificate. Colours keep their escape
/// character; the subscriber has escaped that of values.
pub(super) fn one_line(line: &[u8]) -> Vec<u8> {
    let (text, end) = match line {
        [text @ .., b'\n'] => (text, &b"\n"[..]),
        text => (text, &b""[..]),
    };
    let is_control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | ESCAPE);
    if !text.iter().copied().any(is_control) {
        return line.to_vec();
    }
    let mut escaped = Vec::with_capacity(line.len() + 64);
    for byte in text {
        match byte {
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            byte if is_control(*byte) => escaped.extend(format!("\\x{byte:02x}").bytes()),
            byte => escaped.push(*byte),
        }
    }
    escaped.extend(end);
    escaped
}

const ESCAPE: u8 = 0x1b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_begins_no_line_of_its_own() {
        for (line, written) in [
            (
                "plain \x1b[1mbold\x1b[0m\tö\n",
                "plain \x1b[1mbold\x1b[0m\tö\n",
            ),
            ("a\nERROR forged\r\n\n", "a\\nERROR forged\\r\\n\n"),
            ("a\0b\x0bc", "a\\x00b\\x0bc"),
        ] {
            assert_eq!(one_line(line.as_bytes()), written.as_bytes());
        }
    }
}
