//! Lines of a file that htpasswd writes.

use super::check::check_user;
use super::error::Wrong;

/// Reads a line `user:hash`, and returns user and hash as they stand in a site's document;
/// none for an empty line or a comment.
///
/// # Errors
/// If the name or the hash would be refused in a site's document. The error does not
/// repeat the hash.
pub fn login(line: &str) -> Result<Option<(&str, &str)>, Wrong> {
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (user, hash) = line
        .split_once(':')
        .ok_or_else(|| Wrong::new("is no line of htpasswd; write `user:hash`"))?;
    check_user(user, hash)?;
    Ok(Some((user, hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_user_and_a_hash() {
        let line = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\r\n";
        let expected = ("ann", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=");
        assert_eq!(login(line).unwrap(), Some(expected));
        for line in ["", "\n", "# ann:x", "#"] {
            assert!(login(line).unwrap().is_none(), "{line:?}");
        }
        for (line, expected) in [
            ("ann", "user:hash"),
            (":{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "must not be empty"),
            ("ann:secret", "htpasswd"),
            ("a\tb:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "control"),
        ] {
            let error = login(line).expect_err(line).to_string();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
    }
}
