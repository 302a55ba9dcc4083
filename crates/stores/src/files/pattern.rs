//! Where the files of a name lie.

use std::path::{Path, PathBuf};

use sekisho_certs::host::HostPattern;
use sekisho_certs::store::{Result, StoreError};

/// Two paths with a gap for the name.
#[derive(Debug)]
pub(crate) struct Pattern {
    chain: Template,
    key: Template,
}

impl Pattern {
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self> {
        let (chain, key) = match text.split_once(',') {
            None => (
                Path::new(text).join("fullchain.pem"),
                Path::new(text).join("privkey.pem"),
            ),
            Some((chain, key)) => (chain.trim().into(), key.trim().into()),
        };
        let template = |path: PathBuf| {
            Template::parse(&base.join(path))
                .map_err(|why| StoreError::Refused(format!("files:{text}: {why}").into()))
        };
        Ok(Self {
            chain: template(chain)?,
            key: template(key)?,
        })
    }

    pub(super) fn chain(&self, host: &HostPattern) -> PathBuf {
        self.chain.path(host)
    }

    pub(super) fn key(&self, host: &HostPattern) -> PathBuf {
        self.key.path(host)
    }

    /// Gives the folders above all hosts, which must be there even if a host
    /// is not.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.chain.folder(), self.key.folder()];
        folders.dedup();
        folders
    }
}

/// The text around the gaps: at least two pieces.
#[derive(Debug)]
struct Template(Vec<String>);

impl Template {
    fn parse(path: &Path) -> std::result::Result<Self, String> {
        let text = path.to_str().ok_or("the path is not UTF-8")?;
        let pieces: Vec<String> = text.split(GAP).map(str::to_owned).collect();
        if pieces.len() < 2 {
            return Err(format!(
                "{text:?} has no place for the name; write {GAP}, as in \
                 \"files:/etc/letsencrypt/live/{GAP}\""
            ));
        }
        if pieces.iter().any(|piece| piece.contains(['{', '}', ','])) {
            return Err(format!(
                "in {text:?}, only {GAP} may stand in braces, and only one comma between two patterns"
            ));
        }
        Ok(Self(pieces))
    }

    /// Fills the gaps. A [`HostPattern`] has neither a slash nor an empty label, so
    /// no name leaves its folder.
    fn path(&self, host: &HostPattern) -> PathBuf {
        let stem = match host.wildcard_parent() {
            None => host.as_str().to_owned(),
            Some(parent) => format!("_.{parent}"),
        };
        self.0.join(&stem).into()
    }

    fn folder(&self) -> PathBuf {
        let before = &self.0[0];
        match before.rfind('/') {
            Some(0) => PathBuf::from("/"),
            Some(end) => PathBuf::from(&before[..end]),
            None => PathBuf::from("."),
        }
    }
}

const GAP: &str = "{host}";

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostPattern {
        HostPattern::parse(name).unwrap()
    }

    #[test]
    fn one_pattern_is_a_folder_and_two_are_files() {
        let base = Path::new("/base");
        for (text, chain, key, folder) in [
            (
                "/live/{host}",
                "/live/a.b/fullchain.pem",
                "/live/a.b/privkey.pem",
                "/live",
            ),
            (
                "certs/{host}.crt, certs/{host}.key",
                "/base/certs/a.b.crt",
                "/base/certs/a.b.key",
                "/base/certs",
            ),
            (
                "/x-{host}/{host}",
                "/x-a.b/a.b/fullchain.pem",
                "/x-a.b/a.b/privkey.pem",
                "/",
            ),
        ] {
            let pattern = Pattern::parse(text, base).unwrap();
            assert_eq!(pattern.chain(&host("a.b")), Path::new(chain));
            assert_eq!(pattern.key(&host("a.b")), Path::new(key));
            assert_eq!(pattern.folders(), [Path::new(folder)]);
        }
        let pattern = Pattern::parse("/l/{host}", base).unwrap();
        let wildcard = pattern.chain(&host("*.a.b"));
        assert_eq!(wildcard, Path::new("/l/_.a.b/fullchain.pem"));
    }

    #[test]
    fn bad_patterns_are_refused() {
        for text in [
            "",
            "/live",
            "/live/{name}",
            "{host},{host},{host}",
            "{host}.crt,key",
        ] {
            let error = Pattern::parse(text, Path::new("/")).unwrap_err();
            assert!(matches!(error, StoreError::Refused(_)), "{error}");
        }
    }
}
