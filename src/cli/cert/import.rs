//! `sekisho cert import`: files are read and checked on all cores, written by
//! one transaction per batch. Queues are bounded, so that a million pairs take
//! no more memory than a few batches.

mod check;
mod plan;
mod report;
mod source;
mod write;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use sekisho_certs::{Catalog, Clock, HostPattern};
use tokio::runtime::Runtime;

use crate::cli::failure::{Ended, Result};
use check::{Checked, Dates, check};
use report::Report;
use source::{Files, Hosts, Layout, Refusal, Source};
use write::Writer;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The certificate and those of its issuers, PEM
    #[arg(long, value_name = "FILE", requires = "key", required_unless_present = "dir")]
    chain: Option<PathBuf>,
    /// Its private key, PEM: PKCS#8, SEC1 or PKCS#1
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,
    /// The host that it is for, as often as needed [default: all DNS names in
    /// the certificate]
    #[arg(long = "host", value_name = "NAME", requires = "chain")]
    hosts: Vec<HostPattern>,
    /// A folder of pairs instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chain", "key", "hosts"])]
    dir: Option<PathBuf>,
    /// How the folder is laid out
    #[arg(long, value_enum, default_value = "flat", requires = "dir")]
    layout: Layout,
    /// Take certificates that are expired or not valid yet, too
    #[arg(long)]
    allow_expired: bool,
}

pub(super) fn run(runtime: &Runtime, catalog: &dyn Catalog, args: &Args) -> Result<Ended> {
    let source = args.source()?;
    let report = Report::new(|| source::count(args.dir.as_ref()?, args.layout).ok());
    let dates = Dates {
        now: Clock::System.now(),
        allow_expired: args.allow_expired,
    };
    let (line, ended) = import(runtime, catalog, source, dates, report)?;
    println!("{line}");
    Ok(ended)
}

impl Args {
    fn source(&self) -> Result<Source> {
        if let Some(dir) = &self.dir {
            return Source::folder(dir, self.layout).with_context(|| dir.display().to_string());
        }
        let both = self.chain.clone().zip(self.key.clone());
        let (chain, key) = both.expect("the parser asks for both files, or a folder");
        let hosts = if self.hosts.is_empty() {
            Hosts::OfLeaf
        } else {
            Hosts::Named(self.hosts.clone())
        };
        Ok(Source::pair(Files { chain, key, hosts }))
    }
}

/// Imports all that the source gives; gives the line to end with.
fn import(
    runtime: &Runtime,
    catalog: &dyn Catalog,
    source: Source,
    dates: Dates,
    mut report: Report,
) -> Result<(String, Ended)> {
    let source = Mutex::new(source);
    let checkers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut writer = Writer::new(catalog);
    thread::scope(|scope| {
        let (sender, checked) = sync_channel(BATCH);
        for _ in 0..checkers {
            let sender = sender.clone();
            let source = &source;
            scope.spawn(move || check_all(source, dates, &sender));
        }
        drop(sender);
        // On an error the receiver goes, and with it the threads.
        while let Some(batch) = next_batch(&checked, &mut report) {
            let written = runtime.block_on(writer.write(batch));
            report.add(written.context("the import stopped; what it had stored stays, run it again")?);
        }
        Ok(report.end())
    })
}

/// Takes pairs from the source until it is empty or nobody listens any more.
fn check_all(
    source: &Mutex<Source>,
    dates: Dates,
    sender: &SyncSender<Result<Checked, Refusal>>,
) {
    loop {
        let next = source.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(files) = next else { return };
        let checked = files.and_then(|files| check(files, dates));
        if sender.send(checked).is_err() {
            return;
        }
    }
}

/// The next pairs to write; none at the end.
fn next_batch(
    checked: &Receiver<Result<Checked, Refusal>>,
    report: &mut Report,
) -> Option<Vec<Checked>> {
    let mut batch = Vec::with_capacity(BATCH);
    while batch.len() < BATCH {
        match checked.recv() {
            Ok(Ok(pair)) => batch.push(pair),
            Ok(Err(refusal)) => report.refuse(&refusal),
            Err(_) => break,
        }
    }
    (!batch.is_empty()).then_some(batch)
}

/// Pairs per transaction: enough that waiting for the disk once per batch
/// costs little, few enough that other writers wait for no more than a moment.
const BATCH: usize = 1000;

const EXAMPLES: &str = "\
Each pair is checked: the key belongs to the certificate, the chain is whole
and in order, the certificate is valid now and covers its hosts. Hosts that do
not exist are created. A host keeps its certificates of other key types. What
is stored already is skipped; a bad pair is refused with its file and the
reason, and the rest imported (exit code 1). Stopped at any moment, run it
again: it goes on.

Layouts of --dir:
  flat      NAME.crt and NAME.key; '_.' at the start stands for '*.'
  certbot   NAME/fullchain.pem and NAME/privkey.pem

Examples:
  sekisho cert import --chain shop.crt --key shop.key
  sekisho cert import --chain all.crt --key all.key --host a.example --host b.example
  sekisho cert import --dir /srv/certificates
  sekisho cert import --dir /etc/letsencrypt/live --layout certbot";
