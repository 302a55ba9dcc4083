//! Layouts of sources: which file is which half of which pair, by its path alone.
//!
//! The end of a path decides, never the whole: a source may be given one folder too high or
//! too low, and an archive may have any folders around it.

pub(super) mod documents;
mod flat;
mod folders;
mod recognise;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use sekisho_certs::HostPattern;

use super::source::{Names, Pair, Refusal};

pub(super) use recognise::{Found, found_in, recognise};

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
    /// NAME.crt with NAME.key and NAME.issuer.crt; '_.' is a wildcard
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
    /// Keys NAME:latest of lua-resty-auto-ssl, in Redis or as files
    AutoSsl,
    /// Keys domain:TYPE:NAME of lua-resty-acme, in Redis or as files
    RestyAcme,
    /// NAME.crt with NAME.key; '_.', '_wildcard.' or 'wildcard_.' is a wildcard
    Flat,
    /// A CSV file: chain, key, and hosts
    List,
}

/// File that belongs to a pair. The pair's other files lie in the same folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) role: Role,
    pub(super) chain: OsString,
    pub(super) key: KeyFile,
    /// File of the issuers' certificates, which not every pair has.
    pub(super) issuers: Option<OsString>,
    pub(super) names: Names,
}

/// Role of a file in its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Chain,
    Key,
    Issuers,
}

/// File of a pair's key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyFile {
    /// File of the chain, which holds both.
    Chain,
    Apart(OsString),
    /// File of the chain; if that holds no key, the first of these that exists.
    ChainOr([OsString; 2]),
}

impl Layout {
    /// Returns what a file is to a pair, by its path; none if it is no part of one.
    pub(super) fn part(self, path: &Path) -> Option<Part> {
        match self {
            Self::Certbot => folders::certbot(path),
            Self::Dehydrated => folders::dehydrated(path),
            Self::AcmeSh => folders::acmesh(path),
            Self::Lego => flat::lego(path),
            Self::Caddy => folders::caddy(path),
            Self::Haproxy => flat::haproxy(path),
            Self::Cpanel => folders::cpanel(path),
            Self::Flat => flat::flat(path),
            Self::AutoSsl | Self::RestyAcme | Self::Redis | Self::Traefik | Self::List => None,
        }
    }

    /// Returns the host of a document that holds a whole pair, by its file's name.
    pub(super) fn document(self, path: &Path) -> Option<String> {
        let name = path.file_name()?.to_str()?;
        match self {
            Self::AutoSsl => documents::auto_ssl(&documents::decoded_percent(name)?),
            Self::RestyAcme => documents::resty_acme(&documents::decoded_base64(name)?),
            _ => None,
        }
    }

    /// Returns how many folders may lie between the source and the files of its pairs: one
    /// more than the layout has. Other folders of a flat layout are other sources.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Certbot | Self::Dehydrated | Self::AcmeSh | Self::Cpanel | Self::Lego => 2,
            Self::Caddy => 4,
            Self::Haproxy | Self::AutoSsl | Self::RestyAcme | Self::Flat => 0,
            // These are no folders.
            Self::Redis | Self::Traefik | Self::List => 0,
        }
    }

    /// Returns whether a key without its chain is a lost pair. acme.sh leaves keys of orders
    /// that failed, and lego those of accounts.
    pub(super) fn refuses_lonely_keys(self) -> bool {
        !matches!(self, Self::AcmeSh | Self::Lego)
    }

    /// Returns whether the source is no folder, but one file or server with all pairs.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Redis | Self::Traefik | Self::List)
    }

    /// Describes the files that the layout takes.
    pub(super) fn wanted(self) -> &'static str {
        match self {
            Self::Certbot | Self::Dehydrated => "NAME/fullchain.pem with NAME/privkey.pem",
            Self::AcmeSh => "NAME/fullchain.cer with NAME/NAME.key",
            Self::Lego | Self::Flat => "NAME.crt with NAME.key",
            Self::Caddy => "NAME/NAME.crt with NAME/NAME.key",
            Self::Traefik => "a file acme.json",
            Self::Haproxy => "files with certificates and their key, or a crt-list",
            Self::Cpanel => "NAME/combined",
            Self::Redis => "a URL redis://",
            Self::AutoSsl => "NAME%3Alatest",
            Self::RestyAcme => "files named after 'domain:TYPE:NAME' in base64",
            Self::List => "a CSV file of chain, key and hosts",
        }
    }

    /// Narrows the hosts of a pair to those that the source names. A flat file may be named
    /// after a host of one label.
    pub(super) fn narrow(self, pair: Pair) -> Result<Pair, Refusal> {
        let place = pair.chain.place();
        let names = match pair.names.clone().only_named() {
            Some(names) => Ok(names),
            None if self == Self::Flat => flat::host_of_file(place)
                .map(|host| Names::Exactly(vec![host]))
                .map_err(|why| Refusal::new(place, "the file's name is no host", why)),
            None => {
                let reason = "the source names no host for it";
                Err(Refusal::new(place, "no host is named", reason))
            }
        };
        Ok(Pair {
            names: names?,
            ..pair
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("none is skipped");
        f.write_str(value.get_name())
    }
}

impl Part {
    /// Makes a part of a pair of two files.
    fn of_two(role: Role, chain: &str, key: &str, named: Vec<HostPattern>) -> Self {
        Self {
            role,
            chain: chain.into(),
            key: KeyFile::Apart(key.into()),
            issuers: None,
            names: Names::OfLeaf(named),
        }
    }
}

/// Returns the name of the folder that a file lies in.
fn folder_name(path: &Path) -> Option<&str> {
    path.parent()?.file_name()?.to_str()
}

/// Returns the host that a file or folder is named after; none if it is no host.
fn host_named(stem: &str) -> Vec<HostPattern> {
    flat::host_of(stem).into_iter().collect()
}
