//! Options of `sekisho cert import`.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use rustix::system::uname;
use sekisho_certs::{HostPattern, Origin, Tenant, printable};
use sekisho_server::value::Unit;

use super::layout::Layout;
use super::renew::Renewal;
use super::rules::Rules;
use super::source::{Half, Names, Pair, Pairs};
use super::sources::{LayoutAt, STANDARD_INPUT, open};
use crate::cli::host::site_of_file;
use crate::config::Config;
use crate::terminal::failure::{Result, Usage};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders of pairs, files that hold or list them, archives of tar ('-' is one on
    /// standard input), or URLs of Redis
    ///
    /// Each pair is checked: the key belongs to the certificate, the chain is whole and in order,
    /// what clients verify of it is right, the certificate is valid now and covers its hosts.
    /// Names count in subjectAltName alone. A file may hold up to 50 certificates; a chain of more
    /// than 10, or of more than 64 KiB, is refused. A leaf that the system's authorities or those
    /// of --ca issued may stand alone. A bad pair is refused with its file and the reason, and the
    /// rest imported (exit code 1). Stopped at any moment, run it again: it goes on.
    ///
    /// What is stored already is skipped. A host keeps its certificates of other key types. Of
    /// several pairs for one host and key type the one is stored that the source names for the
    /// host, else the one that is valid longest (in an import of more than 1.8 million hosts, only
    /// for the first of them).
    #[arg(value_name = "SOURCE", conflicts_with_all = ["chain", "key", "hosts"])]
    sources: Vec<PathBuf>,
    /// The certificate and those of its issuers, PEM
    #[arg(long, value_name = "FILE", requires = "key", required_unless_present_any = NO_CHAIN)]
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
    /// How the sources are laid out [default: as the names of a folder's files, or the
    /// beginning of a file, tell]
    ///
    /// The layout of a folder is told also if SOURCE is the folder above or below. Where several
    /// fit, and for archives, name it. Names that begin with a dot are passed over. An archive is
    /// made with 'tar -ch --hard-dereference --sort=name': links in it are not followed.
    #[arg(long, value_enum, conflicts_with = "chain")]
    layout: Option<Layout>,
    /// What the keys of Redis begin with, or the folder in which the paths of a crt-list
    /// begin [default: the list's]
    #[arg(long, value_name = "PREFIX", conflicts_with = "chain")]
    prefix: Option<PathBuf>,
    /// Make hosts of the names alone that files, folders or lists have
    ///
    /// These are the file NAME.crt, the folder NAME, a line's names. Without this option, all names
    /// of a certificate become hosts.
    #[arg(long, conflicts_with = "chain")]
    named_only: bool,
    /// Make hosts of all names of each certificate, as is done without it
    #[arg(long, hide = true, conflicts_with = "chain")]
    all_names: bool,
    /// Go on, and take what another tool renews as its files change. One import does so
    /// for the same sources at a time
    #[arg(long, conflicts_with_all = ["chain", "renew", "dry_run", "report", "json"])]
    pub(super) watch: bool,
    /// Look at all pairs so often, for changes that the system does not report
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "watch", value_parser = gap)]
    pub(super) every: Duration,
    /// Who owns the hosts that are made; hosts of others are left alone
    #[arg(long, value_name = "T", value_parser = Tenant::parse)]
    pub(super) tenant: Option<Tenant>,
    /// Answer for the hosts that are made as this JSON document says
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// Make no host: certificates of others than the existing ones are left out
    #[arg(long)]
    only_existing: bool,
    /// Name of the source, which its records keep [default: 'MACHINE:PATH LAYOUT' or 'URL LAYOUT',
    /// each with the prefix]
    #[arg(long, value_name = "NAME", value_parser = Origin::parse)]
    origin: Option<Origin>,
    /// Remove the hosts that the source brought and no longer has, and its certificates from other
    /// hosts: one in twenty at most, or a single one; with --watch, within a day. What anybody
    /// changed since then stays
    #[arg(long, conflicts_with = "chain")]
    pub(super) prune: bool,
    /// Remove up to so many, of an empty source too; with --watch, within a day
    #[arg(long, value_name = "N", requires = "prune")]
    pub(super) prune_at_most: Option<u64>,
    /// Renew the certificates at the configured CAs, as if they were issued there
    ///
    /// Without this option nothing imported is ever renewed, and the renewal of a certificate that
    /// it replaces for all hosts ends. With it each certificate gets a lineage for the hosts that
    /// refer to it, and servers with a CA renew it when it is due; imported again, the lineage is
    /// brought up to date. Names that no CA issues for, Ed25519 keys, and certificates with more
    /// than 100 hosts are reported and not renewed.
    #[arg(long)]
    renew: bool,
    /// Take certificates that are expired or not valid yet, too
    #[arg(long)]
    pub(super) allow_expired: bool,
    /// Replace certificates that were issued later, too
    ///
    /// Without this option what was issued before the stored certificate is skipped, unless that is
    /// expired.
    #[arg(long)]
    replace_newer: bool,
    /// Authorities of your own, PEM: what they issued needs no further
    /// certificate
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Check and plan all, and write nothing to the store, which need not exist: the import
    /// that follows does what this one tells. Memory grows with the hosts
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Write what became of each pair to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Print one JSON object with the counts and everything that was refused
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// Lists the pairs of all sources, or the one that is named, and the names of the sources.
    /// Layouts are recognised and told the first time alone, and kept in `layouts`.
    pub(super) fn pairs(&self, layouts: &mut Vec<LayoutAt>) -> Result<(Pairs, Vec<Origin>)> {
        if let Some((chain, key)) = self.chain.clone().zip(self.key.clone()) {
            let names = match self.hosts.is_empty() {
                true => Names::Leaf,
                false => Names::Exactly(self.hosts.clone()),
            };
            let pair = Pair::new(names, Half::File(chain), Some(Half::File(key)));
            let only: Pairs = Box::new(iter::once(Ok(pair)));
            return Ok((only, Vec::new()));
        }
        let mut all: Pairs = Box::new(iter::empty());
        let mut origins = Vec::new();
        for (number, path) in self.sources.iter().chain(&self.dir).enumerate() {
            let given = self.layout.map(|layout| (layout, layout.depth()));
            let known = given.or(layouts.get(number).copied());
            let (name, (layout, depth), pairs) = open(path, known, self.prefix.as_deref())?;
            if self.watch && name == STANDARD_INPUT {
                let why = "--watch needs sources that can be read again";
                return Err(Usage(why.into()).into());
            }
            if known.is_none() && !self.json {
                eprintln!("reading the layout of {layout} in {}", printable(&name));
            }
            layouts.extend(known.is_none().then_some((layout, depth)));
            let may_be_empty = self.prune_at_most.is_some() && self.layout.is_some();
            let mut pairs = pairs.peekable();
            if pairs.peek().is_none() && !may_be_empty {
                bail!("{name}: has no pairs of the layout {layout}; 'cert import --help' has all");
            }
            let origin = self.origin(&name, layout)?;
            let source = origin.as_ref().map(|origin| Arc::clone(&origin.source));
            origins.extend(origin.filter(|one| !origins.contains(one)));
            let named_only = self.named_only && !self.all_names;
            let pairs = pairs.map(move |pair| pair?.of(source.clone(), named_only));
            all = Box::new(all.chain(pairs));
        }
        Ok((all, origins))
    }

    /// Returns the folders of the sources, without links.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let sources = self.sources.iter().chain(&self.dir);
        let real = sources.filter_map(|path| fs::canonicalize(path).ok());
        let folder = |path: PathBuf| Some(path.ancestors().find(|one| one.is_dir())?.to_owned());
        real.filter_map(folder).collect()
    }

    /// Returns the name of a source, by which a later import knows it. A path is this machine's;
    /// standard input has none.
    fn origin(&self, source: &str, layout: Layout) -> Result<Option<Origin>> {
        let prefix = self.prefix.as_deref().unwrap_or(Path::new("")).display();
        let name = format!("{source} {layout} {prefix}");
        let own = match source.starts_with('/') {
            true => format!("{}:{name}", uname().nodename().to_string_lossy()),
            false => name,
        };
        let own = Origin::parse(own.trim_end()).ok();
        let own = own.filter(|_| source != STANDARD_INPUT);
        let origin = self.origin.clone().or(own);
        if origin.is_none() && (self.prune || self.watch) {
            return Err(Usage(format!("{source} needs a name: --origin NAME")).into());
        }
        Ok(origin)
    }

    /// Returns what becomes of hosts.
    pub(super) fn rules(&self, config: &Config, now: i64) -> Result<Rules> {
        let tenant = self.tenant.clone().unwrap_or_default();
        let site = self.site.as_ref();
        let site = site.map(|file| site_of_file(file, config, &tenant));
        Ok(Rules {
            keep_newer: (!self.replace_newer).then_some(now),
            renewal: self.renew.then(|| Renewal::of(config, now)),
            tenant: self.tenant.clone(),
            site: site.transpose()?,
            only_existing: self.only_existing,
        })
    }
}

/// Arguments that stand for `--chain`.
const NO_CHAIN: [&str; 2] = ["dir", "sources"];

/// Reads the time between two looks at all pairs.
fn gap(text: &str) -> Result<Duration, String> {
    Unit::Time.parse(text).map(Duration::from_millis)
}

const EXAMPLES: &str = "\
Examples:
  sekisho cert import --chain shop.crt --key shop.key
  sekisho cert import --chain all.crt --key all.key --host a.example b.example
  sekisho cert import /srv/certificates
  sekisho cert import /etc/letsencrypt --renew --dry-run
  sekisho cert import /etc/letsencrypt --watch --prune
  sekisho cert import /srv/anna --tenant anna --site anna.json
  sekisho cert import /etc/haproxy/crt-list.txt --prefix /etc/haproxy/certs
  caddy storage export -c Caddyfile -o - | sekisho cert import - --layout caddy";
