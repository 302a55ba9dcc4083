//! Text of others that reaches a terminal or a log.

/// Escapes line breaks, control characters and all else that is not printable.
/// Quotes and backslashes stay: escaping twice changes nothing.
#[must_use]
pub fn printable(text: &str) -> String {
    let escaped = text.escape_debug().to_string();
    let unquoted = escaped.replace("\\'", "'").replace("\\\"", "\"");
    unquoted.replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_printable_is_escaped() {
        for (text, shown) in [
            ("Let's \"Encrypt\" Bücher", "Let's \"Encrypt\" Bücher"),
            ("a\nb\tc\u{1b}[31m", "a\\nb\\tc\\u{1b}[31m"),
            ("\u{202e}moc", "\\u{202e}moc"),
            ("back\\slash\\'", "back\\slash\\'"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable(shown), shown);
        }
    }
}
