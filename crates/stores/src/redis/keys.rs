//! Keys under which the halves of a pair lie.

use sekisho_certs::host::HostPattern;

/// Two templates with a gap for the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    chain: Template,
    key: Template,
}

impl Keys {
    pub(super) fn new(chain: &str, key: &str) -> Result<Self, String> {
        if chain == key {
            return Err("chain and key must lie under different keys".into());
        }
        Ok(Self {
            chain: Template::parse(chain)?,
            key: Template::parse(key)?,
        })
    }

    /// The keys of a pattern, chain first. A wildcard stands as it is written,
    /// `*.example.com`: to Redis a star in a key is a character like others.
    pub(super) fn of(&self, host: &HostPattern) -> [String; 2] {
        [&self.chain, &self.key].map(|template| template.0.join(host.as_str()))
    }
}

impl Default for Keys {
    /// The layout of the papers.
    fn default() -> Self {
        Self::new("{host}.crt", "{host}.key").expect("both have a gap")
    }
}

/// The text around the gaps: at least two pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template(Vec<String>);

impl Template {
    /// Other braces stay: a Cluster keeps keys with the same text in braces
    /// together.
    fn parse(text: &str) -> Result<Self, String> {
        let pieces: Vec<_> = text.split("{host}").map(str::to_owned).collect();
        match pieces.len() {
            1 => Err("a template must hold {host} for the name of the host".into()),
            _ => Ok(Self(pieces)),
        }
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
