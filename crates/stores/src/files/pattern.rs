//! Where the files of a name lie.

use std::fmt;
use std::path::{Path, PathBuf};

use sekisho_certs::host::HostPattern;

use crate::place::path_below;
use crate::template::{HOST, HostTemplate, segment};

/// Two paths with a place for the name.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    chain: HostTemplate,
    key: HostTemplate,
    /// As it was written, but below the base.
    shown: String,
}

impl Pattern {
    /// Parses a folder, or the path of the chain, a comma and that of the key.
    /// Relative paths begin at `base`.
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, String> {
        let mut paths = Vec::new();
        for part in text.split(',') {
            let path = path_below(base, part.trim())?.into_os_string();
            let path = path.into_string();
            paths.push(path.map_err(|path| format!("{} is not UTF-8", path.display()))?);
        }
        let (chain, key) = match &paths[..] {
            [folder] => (
                format!("{folder}/fullchain.pem"),
                format!("{folder}/privkey.pem"),
            ),
            [chain, key] => (chain.clone(), key.clone()),
            _ => return Err("only one comma between two patterns is allowed".into()),
        };
        let template = |path: &str| {
            HostTemplate::parse_strict(path).map_err(|why| {
                format!("{path:?} {why}, as in \"files:/etc/letsencrypt/live/{HOST}\"")
            })
        };
        Ok(Self {
            chain: template(&chain)?,
            key: template(&key)?,
            shown: paths.join(","),
        })
    }

    pub(super) fn chain(&self, host: &HostPattern) -> PathBuf {
        self.chain.fill(&segment(host)).into()
    }

    pub(super) fn key(&self, host: &HostPattern) -> PathBuf {
        self.key.fill(&segment(host)).into()
    }

    /// Gives the folders above all hosts, which must be there even if a host
    /// is not.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let folder = |template: &HostTemplate| {
            let path = PathBuf::from(template.to_string());
            let is_shared = |path: &&Path| !path.to_string_lossy().contains(HOST);
            path.ancestors().find(is_shared).map(Path::to_owned)
        };
        let folders = [&self.chain, &self.key].into_iter().filter_map(folder);
        let mut folders: Vec<_> = folders.collect();
        folders.dedup();
        folders
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

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
            assert!(Pattern::parse(text, Path::new("/")).is_err(), "{text}");
        }
    }
}
