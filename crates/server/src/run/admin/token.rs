//! The admin listener's bearer token.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};

/// Bearer token, of which only the SHA-256 is kept.
pub struct Token(Digest);

impl Token {
    /// Parses a token; white space around it is ignored.
    ///
    /// # Errors
    /// Says which rule the token breaks: 16 to 512 characters of visible ASCII.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if !(MIN_TOKEN..=MAX_TOKEN).contains(&text.len())
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(
                "a token has 16 to 512 characters of visible ASCII; `openssl rand -hex 32` makes one",
            );
        }
        Ok(Self(digest(&SHA256, text.as_bytes())))
    }

    /// Compares a token in constant time.
    pub(crate) fn matches(&self, candidate: &[u8]) -> bool {
        let candidate = digest(&SHA256, candidate);
        verify_slices_are_equal(self.0.as_ref(), candidate.as_ref()).is_ok()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Shortest token: fewer characters can be guessed.
const MIN_TOKEN: usize = 16;
/// Longest token: more does not fit into a request's head with the rest.
pub const MAX_TOKEN: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_visible_ascii_of_a_useful_length() {
        let token = Token::parse("  0123456789abcdef\n").unwrap();
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
            let problem = Token::parse(text).unwrap_err();
            assert!(problem.contains("16 to 512 characters"), "{problem}");
        }
    }
}
