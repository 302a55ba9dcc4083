//! TOML's notation of values and keys.

use serde_json::Value;

use crate::config::locate::is_bare;

/// Writes a value as TOML, in one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(self::value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(table) if table.is_empty() => "{}".into(),
        Value::Object(table) => {
            let items = table.iter();
            let items =
                items.map(|(name, value)| format!("{} = {}", key(name), self::value(value)));
            format!("{{ {} }}", items.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Joins a path as TOML does: `acme.dns."example.com"`, `site.paths[0]`.
pub(super) fn dotted(path: &[String]) -> String {
    let mut joined = String::new();
    for name in path {
        match name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
        {
            Some(index) if index.parse::<usize>().is_ok() => joined += name,
            _ if joined.is_empty() => joined += &key(name),
            _ => joined += &format!(".{}", key(name)),
        }
    }
    joined
}

fn key(name: &str) -> String {
    match is_bare(name) && !name.is_empty() {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// Writes a text as TOML's basic string. What is not printable is escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\'' => quoted.push(letter),
            _ if letter.escape_debug().count() > 1 => {
                quoted += &format!("\\U{:08X}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_keys_are_as_toml_reads_them() {
        for text in [
            "",
            "a b",
            "a\"b\\c'd",
            "line\nbreak\ttab\r\0",
            "\u{7f}\u{85}\u{202e}\u{1b}[31m",
            "Bücher \u{1f600} e\u{301}",
        ] {
            let line = format!("{} = {}", key(text), quoted(text));
            assert!(!line.contains(char::is_control), "{line}");
            let table: toml::Table = line.parse().unwrap();
            assert_eq!(table[text].as_str(), Some(text), "{line}");
        }
        assert_eq!(
            dotted(&["a", "b.c", "[0]", "d"].map(str::to_owned)),
            "a.\"b.c\"[0].d"
        );
    }

    #[test]
    fn lists_and_tables_stand_in_one_line() {
        let json = serde_json::json!({"a": [1, "b", true, {}], "c d": {"e": []}});
        let text = value(&json);
        assert_eq!(text, "{ a = [1, \"b\", true, {}], \"c d\" = { e = [] } }");
    }
}
