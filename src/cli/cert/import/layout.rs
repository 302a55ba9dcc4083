//! Layouts of sources: which file is which half of which pair.
//!
//! `Layout::part` decides by the path alone, and by its end, never the whole: a source may be given
//! one folder too high or too low, and an archive may have any folders around it. `recognise` also
//! looks whether a key lies beside a `.crt`.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use sekisho_certs::HostPattern;

use super::source::Names;

/// Layout of a source of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// NAME/fullchain.pem with NAME/privkey.pem
    Certbot,
    /// NAME/fullchain.pem with NAME/privkey.pem, of dehydrated
    Dehydrated,
    /// NAME/fullchain.cer with NAME/NAME.key, and NAME_ecc, of acme.sh
    #[value(name = "acmesh")]
    AcmeSh,
    /// NAME.crt with NAME.key, and NAME.issuer.crt; '_.' is a wildcard
    Lego,
    /// ISSUER/NAME/NAME.crt with NAME.key; 'wildcard_.' is a wildcard
    Caddy,
    /// A file acme.json
    Traefik,
    /// Files of certificates and their key, in any order; or a crt-list
    Haproxy,
    /// NAME/combined: key, certificate and its issuers
    Cpanel,
    /// Keys NAME.crt and NAME.key of Redis
    Redis,
    /// Keys NAME:latest of lua-resty-auto-ssl in Redis
    AutoSsl,
    /// Keys domain:TYPE:NAME of lua-resty-acme in Redis
    RestyAcme,
    /// NAME.crt with NAME.key; '_.', '_wildcard.' or 'wildcard_.' is a wildcard
    Flat,
    /// A CSV file: chain, key, and hosts
    List,
}

/// File that belongs to a pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) role: Role,
    pub(super) chain: PathBuf,
    /// File of the key; none if the chain's file holds it.
    pub(super) key: Option<PathBuf>,
    pub(super) names: Names,
}

/// Role of a file in its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Chain,
    Key,
}

impl Layout {
    /// Returns what a file is to a pair, by its path; none if it is no part of one.
    pub(super) fn part(self, path: &Path) -> Option<Part> {
        let (file, folder) = (text(path.file_name()), text(path.parent()?.file_name()));
        let two = |chain: &str, key: &str, name: &str| {
            let (chain, key) = (path.with_file_name(chain), path.with_file_name(key));
            part(path, chain, Some(key), name)
        };
        match self {
            // A lineage of further names has a number, as shop.example-0001.
            Self::Certbot => two(CHAIN, KEY, without_number(folder)),
            Self::Dehydrated => two(CHAIN, KEY, folder),
            Self::AcmeSh => {
                let name = folder.strip_suffix("_ecc").unwrap_or(folder);
                two("fullchain.cer", &format!("{name}.key"), name)
            }
            // ISSUER is not looked at: a source may begin below it.
            Self::Caddy => two(&format!("{folder}.crt"), &format!("{folder}.key"), folder),
            Self::Lego if folder == "archives" || file.ends_with(ISSUERS) => None,
            // The files are named after the first domain, since version 5 after any id.
            Self::Lego => flat(path),
            Self::Flat => flat(path).map(Part::strict),
            Self::Cpanel if file != "combined" => None,
            Self::Cpanel => part(path, path.to_owned(), None, folder),
            Self::Haproxy if BESIDE_BUNDLES.contains(&text(path.extension())) => None,
            Self::Haproxy => part(path, path.to_owned(), None, text(path.file_stem())),
            Self::Redis | Self::AutoSsl | Self::RestyAcme | Self::Traefik | Self::List => None,
        }
    }

    /// Returns how many folders may lie between the source and the files of its pairs. Other
    /// folders of a flat layout are other sources.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Flat | Self::Haproxy => 0,
            _ => DEEPEST,
        }
    }

    /// Returns whether a key without its chain is a lost pair, which stops every removal of
    /// `--prune`. acme.sh leaves keys of orders that failed; lego has those of accounts, and Caddy
    /// too, as `users/default/default.key` of an account without an address.
    pub(super) fn refuses_lonely_keys(self) -> bool {
        !matches!(self, Self::AcmeSh | Self::Lego | Self::Caddy)
    }

    /// Returns whether a file tells this layout from others.
    pub(super) fn is_recognised_by(self, path: &Path) -> bool {
        let (file, ending) = (text(path.file_name()), text(path.extension()));
        match self {
            Self::Lego => file.ends_with(ISSUERS),
            Self::Dehydrated => file.starts_with("cert-") && ending == "pem",
            Self::Haproxy => BUNDLES.contains(&ending),
            _ => self.part(path).is_some_and(|part| part.role == Role::Chain),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("none is skipped");
        f.write_str(value.get_name())
    }
}

impl Part {
    /// Lets the certificate have to cover the host that its file is named after: a file in the
    /// wrong place has another's. A name of one label is more likely the file's alone.
    fn strict(mut self) -> Self {
        if let Names::OfLeaf(named) = &self.names
            && named.iter().any(|host| host.parent().is_some())
        {
            self.names = Names::WithLeaf(named.clone());
        }
        self
    }
}

/// Lists the layouts that files below a folder have, with the number of the files that tell them.
/// What a layout's own names tell counts first: the others are told by endings, which its files
/// have, too. Beside it they count by the pairs that it leaves out, and that lie in the folder
/// itself.
pub(super) fn recognise(folder: &Path, files: &[PathBuf]) -> Vec<(Layout, usize)> {
    let count = |layouts: &[Layout], files: &[&PathBuf]| -> Vec<_> {
        let of = |layout: Layout| {
            let files = files.iter();
            files.filter(|path| layout.is_recognised_by(path)).count()
        };
        let counted = layouts.iter().map(|layout| (*layout, of(*layout)));
        counted.filter(|(_, count)| *count > 0).collect()
    };
    let mut files: Vec<_> = files.iter().collect();
    let mut found = count(&OWN_NAMES, &files);
    // The files of dehydrated's pairs are called as those of certbot's.
    if found.iter().any(|(one, _)| *one == Layout::Dehydrated) {
        found.retain(|(one, _)| *one != Layout::Certbot);
    }
    if !found.is_empty() {
        files.retain(|path| {
            let is_left_out = found.iter().all(|(one, _)| one.part(path).is_none());
            let is_crt = text(path.extension()) == "crt";
            // Bundles beside a .crt hold what that does, as lego's with --pem.
            let beside = path.with_extension(if is_crt { "key" } else { "crt" });
            let is_whole = is_crt == beside.exists();
            // Certbot's own ones, as chain.pem, are not named after hosts.
            let is_pair = is_whole && text(path.file_stem()).contains('.');
            is_left_out && is_pair && path.parent() == Some(folder)
        });
    }
    found.extend(count(&[Layout::Haproxy, Layout::Flat], &files));
    found
}

/// Returns the part that a file is of a pair, which is named after a host or not.
fn part(path: &Path, chain: PathBuf, key: Option<PathBuf>, name: &str) -> Option<Part> {
    // By their bytes: a million paths of three parts each take seconds otherwise.
    let is = |other: &Path| path.as_os_str() == other.as_os_str();
    let role = match (is(&chain), key.as_deref().is_some_and(is)) {
        (true, _) => Role::Chain,
        (false, true) => Role::Key,
        (false, false) => return None,
    };
    Some(Part {
        role,
        chain,
        key,
        names: named(name),
    })
}

fn flat(path: &Path) -> Option<Part> {
    let (chain, key) = (path.with_extension("crt"), path.with_extension("key"));
    part(path, chain, Some(key), text(path.file_stem()))
}

/// Returns the host of a file's or folder's name, where a wildcard may be spelled out.
fn named(stem: &str) -> Names {
    let wildcard = WILDCARDS.iter().find_map(|one| stem.strip_prefix(one));
    let host = match wildcard {
        Some(parent) => HostPattern::parse(&format!("*.{parent}")),
        None => HostPattern::parse(stem),
    };
    Names::OfLeaf(host.into_iter().collect())
}

/// Drops certbot's number from the name of a lineage.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, number)) if number.len() == 4 && number.parse::<u16>().is_ok() => name,
        _ => name,
    }
}

/// Returns a name, or nothing for one that is not UTF-8, which names no host.
fn text(name: Option<&OsStr>) -> &str {
    name.and_then(OsStr::to_str).unwrap_or_default()
}

/// Layouts that have names of their own.
const OWN_NAMES: [Layout; 6] = [
    Layout::Certbot,
    Layout::Dehydrated,
    Layout::AcmeSh,
    Layout::Lego,
    Layout::Caddy,
    Layout::Cpanel,
];
const CHAIN: &str = "fullchain.pem";
const KEY: &str = "privkey.pem";
/// Ending of lego's files with the certificates of issuers.
const ISSUERS: &str = ".issuer.crt";
/// Endings by which bundles are told; HAProxy takes files of any name.
const BUNDLES: [&str; 3] = ["pem", "rsa", "ecdsa"];
/// Endings of files that HAProxy loads beside a bundle.
const BESIDE_BUNDLES: [&str; 4] = ["issuer", "key", "ocsp", "sctl"];
/// Spellings of a wildcard's `*` in names of files: lego and this program, mkcert,
/// Caddy and Traefik's exporters.
const WILDCARDS: [&str; 3] = ["_.", "_wildcard.", "wildcard_."];
/// Folders between a source and the files of its pairs: Caddy has three, and one more if the
/// source is given too high.
pub(super) const DEEPEST: usize = 4;
