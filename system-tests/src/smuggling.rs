//! Request smuggling: bytes that servers may read differently, sent to a server in front
//! of upstreams that note what they parse.

mod attack;
mod case;
mod http1;
mod http2;
mod judge;
mod lies;
mod params;
mod passwords;
mod programs;
mod scripts;
mod secrets;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use self::attack::{Attack, Attacker, source};
use self::case::{
    ALIAS, Case, HOSTS, LOCKED, PLAIN, PROGRAMS, Request, SCRIPT_LIAR, SCRIPTS, STRANGER, id,
};
use self::judge::{Run, id_in};
use self::passwords::Passwords;
use self::programs::Programs;
use self::scripts::Scripts;
use self::secrets::Secrets;
use crate::hosting::answers::Answer;
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
    crate::block_on(smuggle(options))
}

async fn smuggle(options: &Options) -> Result<()> {
    let mut cases = [http1::cases(), http2::cases()].concat();
    cases.retain(|case| case.name.contains(&options.only));
    let mut hosting = Hosting::new(&options.sekisho).await?;
    hosting.plain = true;
    let peers = Peers::start(&hosting).await?;
    hosting.put(&peers.hosts()).await?;
    let pages = hosting.pages().display().to_string();
    let allow = [pages, "127.0.0.0/8".to_owned(), peers.programs.allow()];
    // One worker: all connections share its pool.
    let server = hosting.serve_allowing(&allow, "workers = 1").await?;
    let attacker = Attacker::new(&hosting, &server)?;
    let runs = attack(options, &attacker, &cases).await?;
    let (open, locked): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.host != LOCKED);
    let mut desyncs = judge(options, &open, peers.seen()?);
    desyncs += locked_out(&locked, &peers.passwords);
    let first = open.len() + locked.len();
    let (lies, lied) = lies::run(&attacker, first, &options.only).await?;
    let pairs = peers.passwords.run(&attacker, first + lies, &options.only);
    let (pairs, let_in) = pairs.await?;
    let (secrets, told) = peers.secrets.run(&attacker, &options.only).await?;
    desyncs += lied + let_in + told;
    for fault in peers.faults()? {
        desyncs += 1;
        println!("desync: {fault}");
    }
    ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
    server.tell_to_end()?;
    server.ended().await?;
    let count = first + lies + pairs + secrets;
    println!("{count} cases, {desyncs} desyncs");
    ensure!(desyncs == 0, "servers understood requests differently");
    Ok(())
}

/// Servers and programs behind the server.
struct Peers {
    upstreams: Vec<Upstream>,
    liar: lies::Liar,
    scripts: Scripts,
    lying: Scripts,
    programs: Programs,
    passwords: Passwords,
    secrets: Secrets,
}

impl Peers {
    async fn start(hosting: &Hosting) -> Result<Self> {
        let mut upstreams = Vec::new();
        for kind in Kind::ALL {
            upstreams.push(Upstream::start(kind, &hosting.upstreams()).await?);
        }
        let pages = hosting.pages();
        Ok(Self {
            upstreams,
            liar: lies::Liar::start().await?,
            scripts: Scripts::start(scripts::Kind::Honest, &pages, &[]).await?,
            lying: Scripts::start(scripts::Kind::Liar, &pages, &[]).await?,
            programs: Programs::new(hosting.folder())?,
            passwords: Passwords::start(&pages).await?,
            secrets: Secrets::start().await?,
        })
    }

    fn hosts(&self) -> Vec<Host> {
        let addresses = self.upstreams.iter().map(|upstream| upstream.address);
        let addresses = addresses.chain([self.liar.address()]);
        let upstream = |address| json!({ "upstream": format!("http://{address}") });
        let mut hosts: Vec<_> = HOSTS
            .iter()
            .zip(addresses)
            .map(|(name, address)| host(name, "a", upstream(address)))
            .collect();
        let plain = format!("http://{}", self.upstreams[0].address);
        let plain = json!({ "http": "serve", "upstream": plain });
        hosts.push(host(PLAIN, "a", plain));
        hosts.push(host(ALIAS, "a", json!({ "as": HOSTS[0] })));
        hosts.push(host(SCRIPTS, "a", self.scripts.site()));
        hosts.push(host(SCRIPT_LIAR, "a", self.lying.site()));
        hosts.push(host(PROGRAMS, "a", self.programs.site()));
        hosts.push(host(STRANGER, "b", json!({ "status": 404 })));
        hosts.extend(self.passwords.hosts());
        hosts.extend(self.secrets.hosts());
        hosts
    }

    /// Returns the requests so far, by who got them.
    fn seen(&self) -> Result<Vec<(&'static str, Vec<Seen>)>> {
        let mut seen = vec![
            ("FastCGI", self.scripts.seen()),
            ("CGI", self.programs.seen()?.0),
        ];
        for upstream in &self.upstreams {
            seen.push((upstream.kind.name(), upstream.seen()?));
        }
        Ok(seen)
    }

    /// Returns what was wrong with requests, or with their parameters.
    fn faults(&self) -> Result<Vec<String>> {
        let scripts = [self.scripts.faults(), self.lying.faults()].concat();
        let programs = self.programs.seen()?.1;
        let scripts = scripts
            .into_iter()
            .map(|fault| format!("FastCGI got {fault}"));
        let programs = programs.into_iter().map(|fault| format!("CGI got {fault}"));
        Ok(scripts.chain(programs).collect())
    }
}

/// Looks for framing cases that came to a host with passwords; returns how many did.
fn locked_out(runs: &[Run<'_>], passwords: &Passwords) -> usize {
    let mut desyncs = 0;
    for seen in passwords.seen() {
        desyncs += 1;
        println!("desync: without a password came {seen:?}");
    }
    for run in runs {
        let status = |answer: &Option<Answer>| answer.as_ref().map_or(0, |answer| answer.status);
        let told = [&run.told.case, &run.told.same, &run.told.other].map(status);
        if told[..2].iter().any(|status| (200..400).contains(status)) || told[2] != 401 {
            desyncs += 1;
            println!(
                "desync: {} [{}]: told {told:?} without a password",
                run.case.name, run.host
            );
        }
    }
    desyncs
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
            let more = [&SCRIPTS, &PROGRAMS, &LOCKED, &ALIAS];
            // There is no HTTP/2 without TLS.
            let plain = match &case.request {
                Request::Text(_) => Some(&PLAIN),
                Request::Stream(_) => None,
            };
            let hosts = HOSTS[..Kind::ALL.len()].iter().chain(more).chain(plain);
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
Each case goes to nginx, to Node, to a Node that takes what it would refuse, to a FastCGI
server of this process, to CGI programs, to a host over plain HTTP, to one that answers as
another, and to one with passwords.
Behind each, on the same connection and on another, a canary must get its own answer. A case is
a desync unless it was refused, or the upstream saw it as one request. Cases of passwords are
let in only with a user's. Lengths of pages tell no secret, and placeholders no text of a tenant.

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
