//! Layouts with a folder for each pair.

use std::path::Path;

use super::{KeyFile, Part, Role, folder_name, host_named};
use crate::cli::cert::import::source::Names;

/// certbot: `live/NAME/fullchain.pem` with `privkey.pem`, links into `archive/NAME`. A lineage
/// of other names has a number after its own, as `shop.example-0001`.
pub(super) fn certbot(path: &Path) -> Option<Part> {
    fullchain(path, folder_name(path).map(without_number))
}

/// dehydrated: the files of certbot, links to `fullchain-TIME.pem` beside them. NAME is the
/// first domain, or an alias.
pub(super) fn dehydrated(path: &Path) -> Option<Part> {
    fullchain(path, folder_name(path))
}

/// acme.sh: `NAME/fullchain.cer` with `NAME.key`; in `NAME_ecc` the key has no `_ecc`. A
/// wildcard's folder begins with `*.`.
pub(super) fn acmesh(path: &Path) -> Option<Part> {
    let folder = folder_name(path)?;
    let name = folder.strip_suffix("_ecc").unwrap_or(folder);
    let key = format!("{name}.key");
    let role = role(path, ACMESH_CHAIN, &key)?;
    Some(Part::of_two(role, ACMESH_CHAIN, &key, host_named(name)))
}

/// Caddy and certmagic: `certificates/ISSUER/NAME/NAME.crt` with `NAME.key`.
pub(super) fn caddy(path: &Path) -> Option<Part> {
    let name = folder_name(path)?;
    let (chain, key) = (format!("{name}.crt"), format!("{name}.key"));
    let role = role(path, &chain, &key)?;
    Some(Part::of_two(role, &chain, &key, host_named(name)))
}

/// cPanel's Domain TLS: `NAME/combined` is key, leaf and issuers.
pub(super) fn cpanel(path: &Path) -> Option<Part> {
    let file = path.file_name()?;
    let named = folder_name(path).map(host_named);
    (file == "combined").then(|| Part {
        role: Role::Chain,
        chain: file.to_owned(),
        key: KeyFile::Chain,
        issuers: None,
        names: Names::OfLeaf(named.unwrap_or_default()),
    })
}

fn fullchain(path: &Path, name: Option<&str>) -> Option<Part> {
    let role = role(path, CHAIN, KEY)?;
    let named = name.map(host_named).unwrap_or_default();
    Some(Part::of_two(role, CHAIN, KEY, named))
}

fn role(path: &Path, chain: &str, key: &str) -> Option<Role> {
    let file = path.file_name()?;
    match file == chain {
        true => Some(Role::Chain),
        false => (file == key).then_some(Role::Key),
    }
}

/// Drops certbot's number from the name of a lineage.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, number)) if number.len() == 4 && is_number(number) => name,
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

const CHAIN: &str = "fullchain.pem";
const KEY: &str = "privkey.pem";
const ACMESH_CHAIN: &str = "fullchain.cer";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::cert::import::layout::Layout;

    /// Returns the role, the names of chain and key, and the hosts that are named.
    fn part(layout: Layout, path: &str) -> Option<(Role, String, String, String)> {
        let part = layout.part(Path::new(path))?;
        let key = match part.key {
            KeyFile::Apart(name) => name,
            KeyFile::Chain | KeyFile::ChainOr(_) => "in the chain".into(),
        };
        let Names::OfLeaf(named) = part.names else {
            panic!("{:?}", part.names);
        };
        let named: Vec<_> = named.iter().map(ToString::to_string).collect();
        let text = |name: std::ffi::OsString| name.into_string().unwrap();
        Some((part.role, text(part.chain), text(key), named.join(" ")))
    }

    #[test]
    fn pairs_are_found_by_the_end_of_their_paths() {
        use Layout::{AcmeSh, Caddy, Certbot, Cpanel, Dehydrated};
        for (layout, path, chain, key, named) in [
            (Certbot, "live/a.example", CHAIN, KEY, "a.example"),
            (Certbot, "a.example-0002", CHAIN, KEY, "a.example"),
            (Certbot, "live/my shop", CHAIN, KEY, ""),
            (Dehydrated, "certs/a.example", CHAIN, KEY, "a.example"),
            (
                Dehydrated,
                "certs/_dmarc.example",
                CHAIN,
                KEY,
                "_dmarc.example",
            ),
            (
                AcmeSh,
                "x/a.example",
                ACMESH_CHAIN,
                "a.example.key",
                "a.example",
            ),
            (
                AcmeSh,
                "a.example_ecc",
                ACMESH_CHAIN,
                "a.example.key",
                "a.example",
            ),
            (
                AcmeSh,
                "*.a.example_ecc",
                ACMESH_CHAIN,
                "*.a.example.key",
                "*.a.example",
            ),
            (
                Caddy,
                "le/a.example",
                "a.example.crt",
                "a.example.key",
                "a.example",
            ),
            (
                Caddy,
                "wildcard_.a.example",
                "wildcard_.a.example.crt",
                "wildcard_.a.example.key",
                "*.a.example",
            ),
            (
                Cpanel,
                "domain_tls/a.example",
                "combined",
                "in the chain",
                "a.example",
            ),
            (
                Cpanel,
                "domain_tls/*.a.example",
                "combined",
                "in the chain",
                "*.a.example",
            ),
        ] {
            let [file, key_file, host] = [chain, key, named].map(str::to_owned);
            let wanted = |role| Some((role, file.clone(), key_file.clone(), host.clone()));
            let found = part(layout, &format!("{path}/{chain}"));
            assert_eq!(found, wanted(Role::Chain), "{layout} {path}");
            if layout != Cpanel {
                let found = part(layout, &format!("{path}/{key}"));
                assert_eq!(found, wanted(Role::Key), "{layout} {path}");
            }
        }
    }

    #[test]
    fn other_files_of_the_tools_are_no_pairs() {
        use Layout::{AcmeSh, Caddy, Certbot, Cpanel, Dehydrated};
        for (layout, path) in [
            (Certbot, "live/README"),
            (Certbot, "live/a.example/cert.pem"),
            (Certbot, "archive/a.example/fullchain1.pem"),
            (Certbot, "accounts/ca/directory/1/private_key.json"),
            (Dehydrated, "certs/a.example/fullchain-1700000000.pem"),
            (Dehydrated, "certs/a.example/privkey-1700000000.pem"),
            (AcmeSh, "a.example_ecc/a.example.cer"),
            (AcmeSh, "a.example/backup/fullchain.bak"),
            (AcmeSh, "ca/host/directory/account.key"),
            (AcmeSh, "fullchain.cer"),
            (Caddy, "le/a.example/a.example.json"),
            (Caddy, "pki/authorities/local/root.crt"),
            (Caddy, "acme/le/users/me/me@a.example.key"),
            (Cpanel, "domain_tls/a.example/certificates"),
        ] {
            assert_eq!(part(layout, path), None, "{layout} {path}");
        }
    }
}
