//! Request smuggling: bytes that servers may read differently, sent to a server in front
//! of upstreams that note what they parse.

mod attack;
mod case;
mod http1;
mod http2;
mod judge;
mod lies;
mod scripts;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::runtime;

use self::attack::{Attack, Attacker, source};
use self::case::{Case, HOSTS, Request, SCRIPT_LIAR, SCRIPTS, STRANGER, id};
use self::judge::{Run, id_in};
use self::scripts::Scripts;
use crate::hosting::{Host, Hosting, Kind, Seen, Upstream};

/// Which server, and which cases.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Each case once for each upstream, not cut into single bytes too
    #[arg(long)]
    quick: bool,

    /// Tell what each case led to
    #[arg(long)]
    verbose: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(smuggle(options))
}

async fn smuggle(options: &Options) -> Result<()> {
    let mut cases = [http1::cases(), http2::cases()].concat();
    cases.retain(|case| case.name.contains(&options.only));
    let hosting = Hosting::new(&options.sekisho).await?;
    let mut upstreams = Vec::new();
    for kind in Kind::ALL {
        upstreams.push(Upstream::start(kind, &hosting.upstreams()).await?);
    }
    let liar = lies::Liar::start().await?;
    let addresses = upstreams.iter().map(|upstream| upstream.address);
    let mut hosts: Vec<_> = HOSTS
        .iter()
        .zip(addresses.chain([liar.address()]))
        .map(|(name, address)| {
            host(
                name,
                "a",
                json!({ "upstream": format!("http://{address}") }),
            )
        })
        .collect();
    let scripts = Scripts::start(scripts::Kind::Honest, &hosting.pages()).await?;
    let lying = Scripts::start(scripts::Kind::Liar, &hosting.pages()).await?;
    hosts.push(host(SCRIPTS, "a", scripts.site()));
    hosts.push(host(SCRIPT_LIAR, "a", lying.site()));
    hosts.push(host(STRANGER, "b", json!({ "status": 404 })));
    hosting.put(&hosts).await?;
    // One worker: all connections share its pool.
    let server = hosting.serve("workers = 1").await?;
    let attacker = Attacker::new(&hosting, &server)?;
    let runs = attack(options, &attacker, &cases).await?;
    let mut seen = vec![("FastCGI", scripts.seen())];
    for upstream in &upstreams {
        seen.push((upstream.kind.name(), upstream.seen()?));
    }
    let mut desyncs = judge(options, &runs, seen);
    let (lies, lied) = lies::run(&attacker, runs.len(), &options.only).await?;
    desyncs += lied;
    for fault in [scripts.faults(), lying.faults()].concat() {
        desyncs += 1;
        println!("desync: FastCGI got {fault}");
    }
    ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
    server.tell_to_end()?;
    server.ended().await?;
    let count = runs.len() + lies;
    println!("{count} cases, {desyncs} desyncs");
    ensure!(desyncs == 0, "servers understood requests differently");
    Ok(())
}

fn host(name: &str, tenant: &str, site: Value) -> Host {
    Host {
        name: name.to_owned(),
        tenant: tenant.to_owned(),
        site,
        also: Vec::new(),
    }
}

/// Runs all cases against all upstreams, some at a time.
async fn attack<'a>(
    options: &Options,
    attacker: &Attacker,
    cases: &'a [Case],
) -> Result<Vec<Run<'a>>> {
    let cuts: &[usize] = if options.quick { &[WHOLE] } else { &[WHOLE, 1] };
    let all = cases.iter().flat_map(|case| {
        let cuts = match &case.request {
            Request::Text(text) if text.len() < LONG => cuts,
            _ => &cuts[..1],
        };
        let each = cuts.iter().flat_map(|cut| {
            let hosts = HOSTS[..Kind::ALL.len()].iter().chain([&SCRIPTS]);
            hosts.map(|host| (*cut, *host))
        });
        each.map(move |(cut, host)| (case, cut, host))
    });
    let runs = all
        .enumerate()
        .map(|(number, (case, cut, host))| async move {
            let (id, from) = (id(number), source(number)?);
            let attack = Attack {
                case,
                id: &id,
                host,
                from,
                cut,
                alone: None,
            };
            let told = attacker.attack(attack).await;
            let told = told.with_context(|| format!("{} at {host}", case.name))?;
            anyhow::Ok(Run {
                case,
                id,
                host,
                from,
                told,
            })
        });
    stream::iter(runs)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Compares what each upstream saw with what may be; returns the number of desyncs.
fn judge(options: &Options, runs: &[Run<'_>], all: Vec<(&str, Vec<Seen>)>) -> usize {
    let mut desyncs = 0;
    let mut by_id: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for (upstream, all) in all {
        for seen in all {
            let id = [seen.target(), &seen.head, &seen.said]
                .into_iter()
                .find_map(id_in)
                .map(str::to_owned);
            let Some(id) = id else {
                desyncs += 1;
                println!("desync: {upstream} got {seen:?}");
                continue;
            };
            by_id.entry(id).or_default().push(seen);
        }
    }
    for run in runs {
        let seen: Vec<_> = by_id.get(&run.id).into_iter().flatten().collect();
        let complaints = run.complaints(&seen);
        let what = format!("{} [{} {}]", run.case.name, run.host, run.id);
        if options.verbose {
            println!("{what}: {:?}; seen {seen:?}", run.told);
        }
        if !complaints.is_empty() {
            desyncs += 1;
            println!("desync: {what}: {}", complaints.join("; "));
        }
    }
    desyncs
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Each case goes to nginx, to Node, to a Node that takes what it would refuse, and to a
FastCGI server of this process. Behind
each, on the same connection and on another, a canary must get its own answer. A case is
a desync unless it was refused, or the upstream saw it as one request.

Examples:
  sekisho-system-tests smuggling
  sekisho-system-tests smuggling --only CL.TE --verbose
";

/// Cases at the same time.
const AT_ONCE: usize = 16;
/// Bytes in one write: all.
const WHOLE: usize = usize::MAX;
/// Bytes of a request that is sent as a whole only.
const LONG: usize = 4096;
