//! Keys under which the halves of a pair lie.

use sekisho_certs::host::HostPattern;

use crate::template::HostTemplate;

/// Templates of the keys, chain first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys([HostTemplate; 2]);

impl Keys {
    /// Takes two templates. Other braces stay: a Cluster keeps keys with the
    /// same text in braces together.
    pub(super) fn new(chain: &str, key: &str) -> Result<Self, String> {
        if chain == key {
            return Err("chain and key must lie under different keys".into());
        }
        let template =
            |text| HostTemplate::parse(text).map_err(|why| format!("a template of the keys {why}"));
        Ok(Self([template(chain)?, template(key)?]))
    }

    /// The keys of a pattern, chain first. A wildcard stands as it is written,
    /// `*.example.com`: to Redis a star in a key is a character like others.
    pub(super) fn of(&self, host: &HostPattern) -> [String; 2] {
        let keys = self.0.each_ref();
        keys.map(|template| template.fill(host.as_str()))
    }
}

impl Default for Keys {
    /// The layout of the papers.
    fn default() -> Self {
        Self::new("{host}.crt", "{host}.key").expect("both have a place for the name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_gaps() {
        let host = |name| HostPattern::parse(name).unwrap();
        let papers = Keys::default();
        assert_eq!(papers.of(&host("a.b")), ["a.b.crt", "a.b.key"]);
        assert_eq!(papers.of(&host("*.a.b")), ["*.a.b.crt", "*.a.b.key"]);
        let tagged = Keys::new("cert:{{host}}:{host}", "{{host}}").unwrap();
        assert_eq!(tagged.of(&host("a.b")), ["cert:{a.b}:a.b", "{a.b}"]);
        for (chain, key) in [("x", "{host}"), ("{host}", "{name}"), ("{host}", "{host}")] {
            assert!(Keys::new(chain, key).is_err());
        }
    }
}
