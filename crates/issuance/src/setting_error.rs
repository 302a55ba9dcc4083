//! Error of a setting, by its key.

use crate::acme;

/// Setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct SettingError {
    /// Path of its key below `[acme]`, such as `ask`, `ca.internal.root` or
    /// `dns."example.com".tsig`.
    pub key: String,
    /// Problem with it.
    pub why: String,
}

impl SettingError {
    /// Makes the error of a key of `[acme]` itself.
    pub(crate) fn new(key: &str, why: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            why: why.into(),
        }
    }
}

impl From<acme::Error> for SettingError {
    /// Finds the key of a fault of the configuration, below the CA's name unless all
    /// CAs share it.
    fn from(error: acme::Error) -> Self {
        match error.fault {
            acme::Fault::Setting { key: "agree", why } => Self::new("agree", why),
            acme::Fault::Setting { key, why } => Self::new(&format!("ca.{}.{key}", error.ca), why),
            acme::Fault::Untrusted(why) => Self::new(&format!("ca.{}.ca", error.ca), why),
            fault => Self::new(&format!("ca.{}", error.ca), fault.to_string()),
        }
    }
}
