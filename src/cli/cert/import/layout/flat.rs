//! Layouts with all pairs in one folder.

use std::ffi::OsString;
use std::path::Path;

use sekisho_certs::{HostPattern, NameError};

use super::{KeyFile, Part, Role, folder_name, host_named};
use crate::cli::cert::import::source::Names;

/// `NAME.crt` with `NAME.key`. A name with a dot that is a host's is one of the pair, which its
/// certificate must cover: a file in the wrong place has another's. Any other name means nothing.
pub(super) fn flat(path: &Path) -> Option<Part> {
    let role = match path.extension()?.to_str()? {
        "crt" => Role::Chain,
        "key" => Role::Key,
        _ => return None,
    };
    let beside = |ending| path.with_extension(ending).file_name().map(OsString::from);
    let host = host_of_file(path).ok();
    let named = host.filter(|host| host.parent().is_some());
    Some(Part {
        role,
        chain: beside("crt")?,
        key: KeyFile::Apart(beside("key")?),
        issuers: None,
        names: Names::WithLeaf(named.into_iter().collect()),
    })
}

/// lego, versions 4 and 5: `certificates/NAME.crt` with `NAME.key`. NAME is the first domain, or
/// any id. Without `--bundle` the issuers stand in `NAME.issuer.crt` alone.
pub(super) fn lego(path: &Path) -> Option<Part> {
    if folder_name(path) == Some("archives") {
        return None;
    }
    let file = path.file_name()?.to_str()?;
    let (name, role) = [
        (ISSUERS, Role::Issuers),
        (".crt", Role::Chain),
        (".key", Role::Key),
    ]
    .into_iter()
    .find_map(|(ending, role)| Some((file.strip_suffix(ending)?, role)))?;
    Some(Part {
        issuers: Some(format!("{name}{ISSUERS}").into()),
        ..Part::of_two(
            role,
            &format!("{name}.crt"),
            &format!("{name}.key"),
            host_named(name),
        )
    })
}

/// HAProxy's folder of bundles: each file is one, of any name, but for those that it loads beside
/// others. A bundle without a key has it in `FILE.key`, or in `NAME.key` for `NAME.pem`.
pub(super) fn haproxy(path: &Path) -> Option<Part> {
    let file = path.file_name()?;
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| BESIDE_BUNDLES.contains(&ending)) {
        return None;
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let followed = |ending: &str| {
        let mut name = file.to_owned();
        name.push(ending);
        name
    };
    let replaced = path.with_extension("key").file_name()?.to_owned();
    Some(Part {
        role: Role::Chain,
        chain: file.to_owned(),
        key: KeyFile::ChainOr([followed(".key"), replaced]),
        issuers: Some(followed(".issuer")),
        names: Names::OfLeaf(stem.map(host_named).unwrap_or_default()),
    })
}

/// Returns the host that a file is named after.
pub(super) fn host_of_file(path: &Path) -> Result<HostPattern, String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.ok_or("the file's name is not UTF-8")?;
    host_of(stem).map_err(|error| format!("the file's name is no host: {error}"))
}

/// Returns the host of a file's or folder's name, where a wildcard may be spelled out.
pub(super) fn host_of(stem: &str) -> Result<HostPattern, NameError> {
    let wildcard = WILDCARDS
        .iter()
        .find_map(|prefix| stem.strip_prefix(prefix));
    match wildcard {
        Some(parent) => HostPattern::parse(&format!("*.{parent}")),
        None => HostPattern::parse(stem),
    }
}

/// Ending of lego's files with the certificates of issuers.
pub(super) const ISSUERS: &str = ".issuer.crt";
/// Endings of files that HAProxy loads beside a bundle.
const BESIDE_BUNDLES: [&str; 4] = ["issuer", "key", "ocsp", "sctl"];
/// Spellings of a wildcard's `*` in names of files: lego and this program, mkcert,
/// Caddy and Traefik's exporters.
const WILDCARDS: [&str; 3] = ["_.", "_wildcard.", "wildcard_."];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &Names) -> String {
        let (Names::OfLeaf(named) | Names::WithLeaf(named)) = names else {
            panic!("{names:?}");
        };
        let named: Vec<_> = named.iter().map(HostPattern::as_str).collect();
        named.join(" ")
    }

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
            let part = flat(Path::new(file)).unwrap();
            assert_eq!(part.role, Role::Chain, "{file}");
            assert_eq!(named(&part.names), host, "{file}");
        }
        for file in ["_..crt", "a..b.crt", "127.0.0.1.crt", "a b.crt"] {
            let found = host_of_file(Path::new(file));
            assert!(found.is_err(), "{file}: {found:?}");
            assert_eq!(named(&flat(Path::new(file)).unwrap().names), "");
        }
        // A name of one label is more likely a file's than a host's.
        assert_eq!(named(&flat(Path::new("server.key")).unwrap().names), "");
        assert_eq!(flat(Path::new("pairs/README")), None);
    }

    #[test]
    fn legos_issuers_are_no_pair() {
        for (file, role) in [
            ("certificates/_.a.example.crt", Role::Chain),
            ("certificates/_.a.example.key", Role::Key),
            ("certificates/_.a.example.issuer.crt", Role::Issuers),
        ] {
            let part = lego(Path::new(file)).unwrap();
            assert_eq!(part.role, role, "{file}");
            assert_eq!(part.chain, "_.a.example.crt");
            assert_eq!(part.key, KeyFile::Apart("_.a.example.key".into()));
            let issuers = part.issuers.unwrap();
            assert_eq!(issuers, "_.a.example.issuer.crt", "{file}");
            assert_eq!(named(&part.names), "*.a.example");
        }
        for file in ["certificates/a.example.json", "archives/a.example.crt"] {
            assert_eq!(lego(Path::new(file)), None, "{file}");
        }
    }

    #[test]
    fn a_bundle_may_have_its_key_beside_it() {
        let part = haproxy(Path::new("certs/a.example.pem")).unwrap();
        let names = ["a.example.pem.key", "a.example.key"].map(OsString::from);
        assert_eq!(part.key, KeyFile::ChainOr(names));
        assert_eq!(part.issuers.unwrap(), "a.example.pem.issuer");
        for file in ["a.pem.rsa", "a.pem.ecdsa", "a"] {
            assert!(haproxy(Path::new(file)).is_some(), "{file}");
        }
        for file in ["a.pem.issuer", "a.pem.ocsp", "a.pem.sctl", "a.pem.key"] {
            assert_eq!(haproxy(Path::new(file)), None, "{file}");
        }
    }
}
