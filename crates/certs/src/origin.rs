//! Origins: which source brought a record.

use std::sync::Arc;

/// Source that brought a record, and the version of the record that it holds for.
///
/// The version ends it with the next write, without a line of code in the writer: whoever
/// reads a record and writes it back writes an origin of an older version, and a program
/// that knows no origins leaves the stored one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the source.
    pub source: Arc<str>,
    /// Version of the record; 0 before the write.
    pub version: u64,
}

impl Origin {
    /// Makes the origin of a record that is to be written.
    #[must_use]
    pub fn new(source: impl Into<Arc<str>>) -> Self {
        Self {
            source: source.into(),
            version: 0,
        }
    }

    /// Takes 1 to [`MAX_ORIGIN`] bytes of text without control characters.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(source: &str) -> Result<Self, String> {
        if !(1..=MAX_ORIGIN).contains(&source.len()) {
            return Err(format!(
                "a source's name has 1 to {MAX_ORIGIN} bytes, this one {}",
                source.len()
            ));
        }
        if source.chars().any(char::is_control) {
            return Err("a source's name must not hold control characters".into());
        }
        Ok(Self::new(source))
    }

    /// Returns what a write that gives this version stores: an origin of a version other than
    /// 0 was read, and ends with the write. A record of version 0 has none, since the next
    /// write would take it for a new one.
    #[must_use]
    pub fn of_write(self, version: u64) -> Option<Self> {
        let Self { source, version: 0 } = self else {
            return None;
        };
        (version > 0).then_some(Self { source, version })
    }

    /// Returns the stored origin if it holds for a record of this version.
    #[must_use]
    pub fn of_read(self, version: u64) -> Option<Self> {
        (self.version == version).then_some(self)
    }
}

/// Most bytes of a source's name, which an index holds with each record.
pub const MAX_ORIGIN: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_holds_for_one_version() {
        let new = Origin::new("/etc/letsencrypt");
        let stored = new.clone().of_write(7).unwrap();
        assert_eq!((&*stored.source, stored.version), ("/etc/letsencrypt", 7));
        assert_eq!(stored.clone().of_read(7), Some(stored.clone()));
        assert_eq!(stored.clone().of_read(8), None);
        // Written back with the record.
        assert_eq!(stored.of_write(8), None);
        assert_eq!(new.of_write(0), None);
    }

    #[test]
    fn a_sources_name_can_be_shown() {
        for good in ["/srv/a folder", "redis://cache:6379/1", &"x".repeat(255)] {
            assert_eq!(&*Origin::parse(good).unwrap().source, good);
        }
        for bad in ["", "a\nb", "\u{1b}[1m", &"x".repeat(256)] {
            assert!(Origin::parse(bad).is_err(), "{bad:?}");
        }
    }
}
