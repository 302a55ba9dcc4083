//! Request smuggling: bytes that servers may read differently, sent to a server in front
//! of upstreams that note what they parse.

mod attack;
mod case;
mod http1;
mod http2;
mod judge;
mod lies;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::runtime;

use self::attack::{Attack, Attacker, source};
use self::case::{Case, HOSTS, Request, STRANGER, id};
use self::judge::{Run, id_in};
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
        .map(|(name, address)| Host {
            name: (*name).to_owned(),
            tenant: "a".to_owned(),
            site: json!({ "upstream": format!("http://{address}") }),
            also: Vec::new(),
        })
        .collect();
    hosts.push(Host {
        name: STRANGER.to_owned(),
        tenant: "b".to_owned(),
        site: json!({ "status": 404 }),
        also: Vec::new(),
    });
    hosting.put(&hosts).await?;
    // One worker: all connections share its pool.
    let server = hosting.serve("workers = 1").await?;
    let attacker = Attacker::new(&hosting, &server)?;
    let runs = attack(options, &attacker, &cases, &upstreams).await?;
    let mut desyncs = judge(options, &runs, &upstreams)?;
    let (lies, lied) = lies::run(&attacker, runs.len(), &options.only).await?;
    desyncs += lied;
    ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
    server.tell_to_end()?;
    server.ended().await?;
    let count = runs.len() + lies;
    println!("{count} cases, {desyncs} desyncs");
    ensure!(desyncs == 0, "servers understood requests differently");
    Ok(())
}

/// Runs all cases against all upstreams, some at a time.
async fn attack<'a>(
    options: &Options,
    attacker: &Attacker,
    cases: &'a [Case],
    upstreams: &[Upstream],
) -> Result<Vec<Run<'a>>> {
    let cuts: &[usize] = if options.quick { &[WHOLE] } else { &[WHOLE, 1] };
    let all = cases.iter().flat_map(|case| {
        let cuts = match &case.request {
            Request::Text(text) if text.len() < LONG => cuts,
            _ => &cuts[..1],
        };
        let hosts = &HOSTS[..upstreams.len()];
        let each = cuts
            .iter()
            .flat_map(move |cut| hosts.iter().map(move |host| (*cut, *host)));
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
fn judge(options: &Options, runs: &[Run<'_>], upstreams: &[Upstream]) -> Result<usize> {
    let mut desyncs = 0;
    let mut by_id: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for upstream in upstreams {
        for seen in upstream.seen()? {
            let id = [seen.target(), &seen.head, &seen.said]
                .into_iter()
                .find_map(id_in)
                .map(str::to_owned);
            let Some(id) = id else {
                desyncs += 1;
                println!("desync: {} got {seen:?}", upstream.kind.name());
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
    Ok(desyncs)
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Each case goes to nginx, to Node, and to a Node that takes what it would refuse. Behind
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
