//! Options of `sekisho cert import`.

use std::iter;
use std::path::PathBuf;

use sekisho_certs::credential::Dates;
use sekisho_certs::{HostPattern, printable};

use super::layout::Layout;
use super::plan::Older;
use super::source::{Half, Names, Pair, Pairs};
use super::sources::Source;
use crate::terminal::failure::Result;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders of pairs, files that hold or list them, archives of tar ('-' is one on
    /// standard input), or URLs of Redis
    #[arg(value_name = "SOURCE", conflicts_with_all = ["chain", "key", "hosts"])]
    sources: Vec<PathBuf>,
    /// The certificate and those of its issuers, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        required_unless_present_any = ["dir", "sources"]
    )]
    chain: Option<PathBuf>,
    /// Its private key, PEM: PKCS#8, SEC1 or PKCS#1
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,
    /// The hosts that it is for [default: all DNS names in the certificate]
    #[arg(long = "host", value_name = "NAME", num_args = 1.., requires = "chain")]
    hosts: Vec<HostPattern>,
    /// A folder of pairs, as SOURCE
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chain", "key", "hosts"])]
    dir: Option<PathBuf>,
    /// How the sources are laid out [default: as their files' names tell]
    #[arg(long, value_enum, conflicts_with = "chain")]
    layout: Option<Layout>,
    /// What the keys of Redis begin with, or the folder in which the paths of a crt-list
    /// begin [default: the list's]
    #[arg(long, value_name = "PREFIX", conflicts_with = "chain")]
    prefix: Option<PathBuf>,
    /// Make hosts of the names alone that files, folders or lists have
    #[arg(long, conflicts_with = "chain")]
    named_only: bool,
    /// Make hosts of all names of each certificate, as is done without it
    #[arg(long, hide = true, conflicts_with = "chain")]
    all_names: bool,
    /// Renew the certificates at the configured CAs, as if they were issued there
    #[arg(long)]
    pub(super) renew: bool,
    /// Take certificates that are expired or not valid yet, too
    #[arg(long)]
    allow_expired: bool,
    /// Replace certificates that were issued later, too
    #[arg(long)]
    replace_newer: bool,
    /// Authorities of your own, PEM: what they issued needs no further
    /// certificate
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Print one JSON object with the counts and everything that was refused
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// Opens the sources; none if chain and key are named. Tells which layouts they have.
    pub(super) fn open(&self) -> Result<Vec<Source>> {
        let mut opened = Vec::new();
        for path in self.sources.iter().chain(&self.dir) {
            let source = Source::open(path, self.layout)?;
            if self.layout.is_none() && !self.json {
                eprintln!("{}", printable(&source.describe()));
            }
            opened.push(source);
        }
        Ok(opened)
    }

    /// Lists the pairs of all sources, or the one that is named.
    pub(super) fn pairs(&self, sources: Vec<Source>) -> Result<Pairs> {
        if let Some((chain, key)) = self.chain.clone().zip(self.key.clone()) {
            let names = match self.hosts.is_empty() {
                true => Names::Leaf,
                false => Names::Exactly(self.hosts.clone()),
            };
            let pair = Pair::new(names, Half::File(chain), Half::File(key));
            return Ok(Box::new(iter::once(Ok(pair))));
        }
        let base = self.prefix.as_deref();
        let pairs = sources
            .into_iter()
            .map(|source| source.pairs(self.is_named_only(), base));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(pairs.into_iter().flatten()))
    }

    /// Returns whether named hosts alone are wanted.
    pub(super) fn is_named_only(&self) -> bool {
        self.named_only && !self.all_names
    }

    /// Returns the validity that certificates must have.
    pub(super) fn dates(&self, now: i64) -> Dates {
        match self.allow_expired {
            true => Dates::Any,
            false => Dates::ValidAt(now),
        }
    }

    pub(super) fn older(&self, now: i64) -> Older {
        match self.replace_newer {
            true => Older::Replaces,
            false => Older::IsSkipped { now },
        }
    }
}

const EXAMPLES: &str = "\
Each pair is checked: the key belongs to the certificate, the chain is whole
and in order, what clients verify of it is right, the certificate is valid now
and covers its hosts. Names count in subjectAltName alone. A file may hold up to
50 certificates; a chain of more than 10, or of more than 64 KiB, is refused. A
leaf that the system's authorities or those of --ca issued may stand alone.

All names of a certificate become hosts; with --named-only those alone that the
source names: the file NAME.crt, the folder NAME, a line's names. Hosts that do
not exist are created. A host keeps its certificates of other key types. What is
stored already is skipped, and what was issued before the stored certificate,
unless that is expired or --replace-newer is given. Of several pairs for one
host and key type the one is stored that the source names for the host, else the
one that is valid longest, whatever their order (in an import of more than 1.8
million hosts, only for the first of them). A bad pair is refused with its file
and the reason, and the rest imported (exit code 1): the first three of each
reason are shown, --json prints all. Stopped at any moment, run it again: it
goes on.

Without --renew nothing imported is ever renewed, and the renewal of a
certificate that it replaces for all hosts ends. With --renew each certificate
gets a lineage for the hosts that refer to it, and servers with [acme] renew it
when it is due; imported again, the lineage is brought up to date. Names that no
CA issues for, Ed25519 keys, and certificates with more than 100 hosts are
reported and not renewed.

The layout of a source is told by the names of its files, also if SOURCE is the
folder above or below; where several fit, name it with --layout. Names that
begin with a dot are passed over. Files of haproxy are bundles or crt-lists. An
archive is made with 'tar -ch --sort=name': links in it are not followed.

Examples:
  sekisho cert import --chain shop.crt --key shop.key
  sekisho cert import --chain all.crt --key all.key --host a.example b.example
  sekisho cert import /srv/certificates
  sekisho cert import /etc/letsencrypt --renew
  sekisho cert import /etc/haproxy/crt-list.txt --prefix /etc/haproxy/certs
  sekisho cert import /etc/traefik/acme.json
  caddy storage export -c Caddyfile -o - | sekisho cert import -";
