//! `sekisho cert import`

mod check;
mod layout;
mod pipeline;
mod plan;
mod renew;
mod report;
mod roots;
mod settled;
mod source;
mod write;

use std::iter;
use std::path::PathBuf;

use anyhow::{Context, bail};
use sekisho_certs::credential::Dates;
use sekisho_certs::{Clock, HostPattern};
use tokio::runtime::Runtime;

use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;
use layout::Layout;
use renew::Renewal;
use source::{Files, Pairs};

pub(crate) use check::{Checked, Hosts, pair};
pub(crate) use pipeline::import;
pub(crate) use plan::Older;
pub(crate) use report::Report;
pub(crate) use roots::Roots;
pub(crate) use source::Refusal;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The certificate and those of its issuers, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        required_unless_present = "dir"
    )]
    chain: Option<PathBuf>,
    /// Its private key, PEM: PKCS#8, SEC1 or PKCS#1
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,
    /// The hosts that it is for [default: all DNS names in the certificate]
    #[arg(long = "host", value_name = "NAME", num_args = 1.., requires = "chain")]
    hosts: Vec<HostPattern>,
    /// A folder of pairs instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chain", "key", "hosts"])]
    dir: Option<PathBuf>,
    /// How the folder is laid out
    #[arg(long, value_enum, default_value = "flat", requires = "dir")]
    layout: Layout,
    /// Make hosts of all names of each certificate, not of the file's name
    #[arg(long, requires = "dir")]
    all_names: bool,
    /// Renew the certificates at the configured CAs, as if they were issued there
    #[arg(long)]
    renew: bool,
    /// Take certificates that are expired or not valid yet, too
    #[arg(long)]
    allow_expired: bool,
    /// Replace certificates that were issued later, too
    #[arg(long)]
    replace_newer: bool,
    /// Authorities of your own, PEM: what they issued needs no further
    /// certificate
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON object with the counts and everything that was refused
    #[arg(long)]
    json: bool,
}

pub(super) fn run(runtime: &Runtime, config: &Config, args: &Args) -> Result<Ended> {
    let sealer = runtime.block_on(open::create(config))?;
    let source = args.source()?;
    let roots = Roots::load(args.ca.as_deref())?;
    let mut report = Report::new(|| args.layout.count(args.dir.as_ref()?).ok());
    if args.json {
        report.begin_json();
    }
    let now = Clock::System.now();
    let dates = match args.allow_expired {
        true => Dates::Any,
        false => Dates::ValidAt(now),
    };
    let older = match args.replace_newer {
        true => Older::Replaces,
        false => Older::IsSkipped { now },
    };
    let check =
        |files: Result<Files, Refusal>| files.and_then(|files| check::files(&files, dates, &roots));
    let renewal = args.renew.then(|| Renewal::of(config, now));
    report.renewed = renewal.map(|_| 0);
    let report = import(runtime, &sealer, source, check, report, older, renewal)?;
    if let Some(dir) = args.dir.as_ref().filter(|_| report.is_empty()) {
        bail!("{}: {}", dir.display(), args.layout.explain(dir)?);
    }
    let (line, ended) = report.end()?;
    if let Some(line) = line {
        println!("{line}");
    }
    Ok(ended)
}

impl Args {
    fn source(&self) -> Result<Pairs> {
        if let Some(dir) = &self.dir {
            return source::folder(dir.clone(), self.layout, self.all_names)
                .with_context(|| dir.display().to_string());
        }
        let both = self.chain.clone().zip(self.key.clone());
        let (chain, key) = both.expect("the parser asks for both files, or a folder");
        let hosts = if self.hosts.is_empty() {
            Hosts::OfLeaf
        } else {
            Hosts::Named(self.hosts.clone())
        };
        Ok(Box::new(iter::once(Ok(Files { chain, key, hosts }))))
    }
}

const EXAMPLES: &str = "\
Each pair is checked: the key belongs to the certificate, the chain is whole
and in order, what clients verify of it is right, the certificate is valid now
and covers its hosts. Names count in subjectAltName alone. A file may hold up to
50 certificates; a chain of more than 10, or of more than 64 KiB, is refused. A
leaf that the system's authorities or those of --ca issued may stand alone.

Hosts that do not exist are created. A host keeps its certificates of other key
types. What is stored already is skipped, and what was issued before the stored
certificate, unless that is expired or --replace-newer is given. Of several
pairs for one host and key type the one that is valid longest is stored,
whatever their order (in an import of more than 1.8 million hosts, only for the
first of them). A bad pair is refused with its file and the reason, and the rest
imported (exit code 1): the first three of each reason are shown, --json prints
all. Stopped at any moment, run it again: it goes on.

Without --renew nothing imported is ever renewed, and the renewal of a
certificate that it replaces for all hosts ends. With --renew each certificate
gets a lineage for the hosts that refer to it, and servers with [acme] renew it
when it is due; imported again, the lineage is brought up to date. Names that no
CA issues for, Ed25519 keys, and certificates with more than 100 hosts are
reported and not renewed.

Layouts of --dir:
  flat      NAME.crt and NAME.key; '_.', '_wildcard.' or 'wildcard_.' at the
            start stands for '*.'
  certbot   NAME/fullchain.pem and NAME/privkey.pem

Examples:
  sekisho cert import --chain shop.crt --key shop.key
  sekisho cert import --chain all.crt --key all.key --host a.example b.example
  sekisho cert import --dir /srv/certificates
  sekisho cert import --dir /etc/letsencrypt/live --layout certbot --renew";
