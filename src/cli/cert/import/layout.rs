//! Layouts of folders with pairs.

use std::fs;
use std::io;
use std::path::Path;

use clap::ValueEnum;
use sekisho_certs::HostPattern;

use super::check::Hosts;
use super::source::{Files, Refusal};

/// Layout of a folder of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// NAME.crt and NAME.key; the stem is the host, '_.' a wildcard
    Flat,
    /// Folders with fullchain.pem and privkey.pem; the hosts are the
    /// certificate's names
    Certbot,
}

impl Layout {
    /// Returns the pair of an entry of the folder; None for other entries.
    pub(super) fn pair(self, path: &Path, all_names: bool) -> Option<Result<Files, Refusal>> {
        match self {
            Self::Flat => flat(path, all_names),
            Self::Certbot => certbot(path),
        }
    }

    /// Estimates the pairs of a folder, for a progress bar.
    pub(super) fn count(self, path: &Path) -> io::Result<u64> {
        let entries = fs::read_dir(path)?.filter_map(Result::ok);
        let counts = |path: &Path| match self {
            Self::Flat => has_extension(path, "crt"),
            Self::Certbot => true,
        };
        let counted = entries.filter(|entry| counts(&entry.path())).count();
        Ok(counted as u64)
    }

    /// Describes a folder in which this layout found nothing, and the layout
    /// that would fit.
    pub(super) fn explain(self, folder: &Path) -> io::Result<String> {
        let (mut files, mut folders, mut flat, mut certbot) = (0, 0, 0, 0);
        for entry in fs::read_dir(folder)?.take(LOOKED_AT) {
            let path = entry?.path();
            if path.is_dir() {
                folders += 1;
                certbot += u32::from(path.join(CERTBOT_CHAIN).exists());
            } else {
                files += 1;
                flat += u32::from(has_extension(&path, "crt"));
            }
        }
        let wanted = match self {
            Self::Flat => "--layout flat takes NAME.crt with NAME.key",
            Self::Certbot => "--layout certbot takes NAME/fullchain.pem with NAME/privkey.pem",
        };
        let advice = match (flat, certbot) {
            (0, 0) => "no layout takes these: name each pair with --chain and --key".to_owned(),
            (flat, 0) => format!("{flat} of the files end with .crt: use --layout flat"),
            (_, certbot) => {
                format!("{certbot} of the folders hold fullchain.pem: use --layout certbot")
            }
        };
        Ok(match files + folders {
            0 => format!("the folder is empty; {wanted}"),
            _ => format!(
                "nothing to import among {files} files and {folders} folders; {wanted}; {advice}"
            ),
        })
    }
}

/// Returns the pair of a `.crt`; a refusal for a `.key` without one.
fn flat(path: &Path, all_names: bool) -> Option<Result<Files, Refusal>> {
    if has_extension(path, "key") {
        let chain = path.with_extension("crt");
        let alone = !chain.exists();
        let name = chain.file_name().unwrap_or(chain.as_os_str());
        let reason = format!("{} is missing", name.to_string_lossy());
        return alone.then(|| Err(Refusal::new(path, "half of the pair is missing", reason)));
    }
    if !has_extension(path, "crt") {
        return None;
    }
    let hosts = match all_names {
        true => Ok(Hosts::OfLeaf),
        false => host_of(path).map(|host| Hosts::Named(vec![host])),
    };
    let files = |hosts| Files {
        chain: path.to_owned(),
        key: path.with_extension("key"),
        hosts,
    };
    let refuse = |reason| Refusal::new(path, "the file's name is no host", reason);
    Some(hosts.map(files).map_err(refuse))
}

/// Returns the host that a file is named after.
fn host_of(path: &Path) -> Result<HostPattern, String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.ok_or("the file's name is not UTF-8")?;
    let wildcard = WILDCARDS
        .iter()
        .find_map(|prefix| stem.strip_prefix(prefix));
    let pattern = match wildcard {
        Some(parent) => format!("*.{parent}"),
        None => stem.to_owned(),
    };
    HostPattern::parse(&pattern).map_err(|error| format!("the file's name is no host: {error}"))
}

/// Returns the pair in a folder; None if the entry is no folder.
fn certbot(path: &Path) -> Option<Result<Files, Refusal>> {
    path.is_dir().then(|| {
        Ok(Files {
            chain: path.join(CERTBOT_CHAIN),
            key: path.join("privkey.pem"),
            hosts: Hosts::OfLeaf,
        })
    })
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

const CERTBOT_CHAIN: &str = "fullchain.pem";
/// Spellings of a wildcard's `*` in file names: lego and this program, mkcert,
/// Traefik's exporters.
const WILDCARDS: [&str; 3] = ["_.", "_wildcard.", "wildcard_."];
/// Entries that are read to describe a folder.
const LOOKED_AT: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_file_is_named_after_its_host() {
        for (file, host) in [
            ("a.example.crt", "a.example"),
            ("_.a.example.crt", "*.a.example"),
            ("_wildcard.a.example.crt", "*.a.example"),
            ("wildcard_.a.example.crt", "*.a.example"),
            ("*.a.example.crt", "*.a.example"),
            ("_dmarc.a.example.crt", "_dmarc.a.example"),
            ("bücher.example.crt", "xn--bcher-kva.example"),
        ] {
            let found = host_of(Path::new(file)).map(|host| host.to_string());
            assert_eq!(found.as_deref(), Ok(host));
        }
        for file in ["_..crt", "..crt", "a..b.crt", "127.0.0.1.crt", "a b.crt"] {
            let found = host_of(Path::new(file));
            assert!(found.is_err(), "{file}: {found:?}");
        }
    }
}
