//! The admin listener's bearer token.

use std::fmt;
use std::io;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};

use crate::config::TokenSource;

/// What a request must carry. Only its SHA-256 is kept.
pub struct Token(Digest);

impl Token {
    /// Reads it from its file or variable; surrounding white space is dropped.
    ///
    /// # Errors
    /// Says what is missing, or which rule the token breaks: 16 to 512
    /// characters of visible ASCII.
    pub fn load(source: &TokenSource) -> io::Result<Self> {
        let text = source.read(READ)?;
        Self::parse(&text).map_err(|problem| io::Error::other(format!("{source}: {problem}")))
    }

    /// Whether this is the token. How long that takes tells nothing of it.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        let given = digest(&SHA256, given);
        verify_slices_are_equal(self.0.as_ref(), given.as_ref()).is_ok()
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if !(LEAST..=MOST).contains(&text.len())
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(
                "a token has 16 to 512 characters of visible ASCII; `openssl rand -hex 32` makes one",
            );
        }
        Ok(Self(digest(&SHA256, text.as_bytes())))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Fewer can be guessed.
const LEAST: usize = 16;
/// More does not fit into a request's head beside the rest.
const MOST: usize = 512;
/// Room for the longest token and white space, so that a longer file is seen
/// to be too long, and so that the text never moves in memory.
const READ: usize = 2 * MOST;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn reads_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let load = |text: &str| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            Token::load(&TokenSource::File(file.clone()))
        };
        let token = load("  0123456789abcdef\n").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for other in [
            &b""[..],
            b"0123456789abcde",
            b"0123456789abcdeF",
            b"0123456789abcdef0",
        ] {
            assert!(!token.matches(other));
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
        for text in [
            "",
            "short",
            "0123456789 abcdef",
            "0123456789äbcdef",
            &"x".repeat(513),
            &"x".repeat(5000),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains("16 to 512 characters"), "{error}");
            assert!(text.len() < 5 || !error.contains(text), "{error}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        let exposed = Token::load(&TokenSource::File(file.clone()));
        let error = exposed.unwrap_err().to_string();
        assert!(
            error.contains("token: others may read it (mode 604)"),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        let error = Token::load(&TokenSource::File(file))
            .unwrap_err()
            .to_string();
        assert!(error.contains("token: No such file"), "{error}");
        let missing = TokenSource::Env("SEKISHO_TEST_UNSET".into());
        let error = Token::load(&missing).unwrap_err().to_string();
        assert!(
            error.contains("SEKISHO_TEST_UNSET: environment variable not found"),
            "{error}"
        );
    }
}
