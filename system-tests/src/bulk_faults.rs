//! Kills of imports: SIGKILL at any moment of an import, of one that prunes, and of one that
//! watches, while a server serves what they store. After each kill every host must be served
//! with a certificate that the source had for it, and a repetition must store the rest.

mod field;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sekisho_bench::load::client::Client;
use sekisho_certs::Sealer;
use tokio::runtime;
use tokio::time::{Instant, sleep};

use self::field::{Field, runs_for, stored};
use self::tree::Tree;
use crate::chaos::interrupted;
use crate::leaf;

/// How many kills, and of what.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Kills, half of them with SQLite and half with PostgreSQL
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    kills: u32,

    /// Hosts of the source
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u16).range(20..))]
    hosts: u16,

    /// Seed of the changes and the moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Import that is killed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Import,
    Prune,
    Watch,
}

/// Counts of what was wrong after kills.
#[derive(Default)]
struct Counts {
    kills: u32,
    /// Hosts of the source that were stored before a kill and not after it, or not after the
    /// repetition.
    lost: usize,
    /// Hosts that were served with what the source never had for them, or, after the
    /// repetition and while a watcher is judged, with anything but its newest.
    wrong: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            ended = kill_all(options) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

async fn kill_all(options: &Options) -> Result<()> {
    let mut counts = Counts::default();
    let half = options.kills / 2;
    for (name, kills) in [("sqlite", options.kills - half), ("postgres", half)] {
        let field = match name {
            "sqlite" => Field::sqlite(&options.sekisho)?,
            _ => Field::postgres(&options.sekisho)?,
        };
        let mut run = Run::begin(&field, options).await?;
        for number in 0..kills {
            let kind = Kind::ALL[number as usize % Kind::ALL.len()];
            run.kill(kind, &mut counts)
                .await
                .with_context(|| format!("{name}, kill {number}, {kind:?}"))?;
            if (number + 1) % REPORT_EVERY == 0 || number + 1 == kills {
                let Counts { lost, wrong, .. } = counts;
                println!("{name}: {} kills, {lost} lost, {wrong} wrong", number + 1);
            }
        }
    }
    let Counts { kills, lost, wrong } = counts;
    println!("{kills} kills, {lost} lost, {wrong} wrong");
    ensure!(lost + wrong == 0, "{} failures, see above", lost + wrong);
    Ok(())
}

impl Kind {
    const ALL: [Self; 3] = [Self::Import, Self::Prune, Self::Watch];

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Import => &[],
            Self::Prune => &PRUNE,
            // Changes are found by their events alone: `judge_watched`.
            Self::Watch => &[
                "--watch",
                "--every",
                "10m",
                "--prune",
                "--prune-at-most",
                MOST,
            ],
        }
    }
}

/// Kills with one store.
struct Run<'a> {
    field: &'a Field,
    sealer: Sealer,
    client: Client,
    tree: Tree,
    /// Time of an import that is not killed.
    whole: Duration,
}

impl<'a> Run<'a> {
    async fn begin(field: &'a Field, options: &Options) -> Result<Self> {
        let tree = Tree::new(&field.pairs(), options.hosts.into(), options.seed)?;
        let begun = Instant::now();
        field.import(&[]).await?;
        let whole = begun.elapsed();
        field.serve().await?;
        Ok(Self {
            field,
            sealer: field.sealer().await?,
            client: field.client(&tree.root_pem())?,
            tree,
            whole,
        })
    }

    /// Changes the source and kills an import of it, until one was killed before its end.
    /// Judges what it left behind, and what a repetition makes of it.
    async fn kill(&mut self, kind: Kind, counts: &mut Counts) -> Result<()> {
        loop {
            self.change(kind)?;
            let before = stored(&self.sealer).await?;
            let is_killed = self.run_and_kill(kind, counts).await?;
            self.judge_killed(&before, counts).await?;
            self.field.import(&PRUNE).await?;
            self.judge_whole(counts).await?;
            if is_killed {
                counts.kills += 1;
                return Ok(());
            }
        }
    }

    /// Renews a fifth of the hosts, and adds and removes some.
    fn change(&mut self, kind: Kind) -> Result<()> {
        let hosts = self.tree.hosts().count();
        self.tree.renew(hosts / 5)?;
        self.tree.add(SOME)?;
        match kind {
            Kind::Import => Ok(()),
            Kind::Prune | Kind::Watch => self.tree.remove(SOME),
        }
    }

    /// Starts an import and kills it at a random moment. While it watches, the source changes
    /// again, and one watcher in two is judged by what it makes of that before it is killed. Tells
    /// whether it was killed.
    async fn run_and_kill(&mut self, kind: Kind, counts: &mut Counts) -> Result<bool> {
        let mut child = self.field.begin(kind.options())?;
        let begun = Instant::now();
        let moment = self.whole.mul_f64(self.tree.draw());
        let said = || self.field.said();
        let mut runs = runs_for(&mut child, moment).await.with_context(said)?;
        if let Kind::Watch = kind {
            let mut moment = WATCHED.mul_f64(self.tree.draw());
            let is_judged = counts.kills.is_multiple_of(2);
            if is_judged {
                // Its first round is over then: events alone tell it of the change.
                self.judge_watched(counts).await?;
                moment = Duration::ZERO;
            }
            self.change(kind)?;
            if is_judged {
                self.judge_watched(counts).await?;
            }
            runs = runs && runs_for(&mut child, moment).await?;
            ensure!(runs, "the watcher ended: {}", self.field.said());
        }
        if runs {
            child.kill().await?;
        } else {
            // The next one is killed earlier.
            self.whole = begun.elapsed();
        }
        if let Kind::Watch = kind {
            self.field.end_lease(&self.sealer).await?;
        }
        Ok(runs)
    }

    /// Judges what a watcher stores: each host must be served with the newest certificate in time.
    async fn judge_watched(&self, counts: &mut Counts) -> Result<()> {
        let deadline = Instant::now() + self.whole + NOTICED;
        for host in self.tree.hosts() {
            loop {
                // A new host is refused until it is stored.
                let shown = leaf::shown(&self.client, host).await;
                if shown
                    .as_ref()
                    .is_ok_and(|leaf| self.tree.is_newest(host, leaf))
                {
                    break;
                }
                if Instant::now() > deadline {
                    println!("not stored by a watcher: {host}: {shown:?}");
                    counts.wrong += 1;
                    break;
                }
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Judges the store after a kill.
    async fn judge_killed(&self, before: &[String], counts: &mut Counts) -> Result<()> {
        let now = stored(&self.sealer).await?;
        let gone = before.iter().filter(|host| !now.contains(host));
        for host in gone.filter(|host| self.tree.has(host)) {
            println!("lost by the kill: {host}");
            counts.lost += 1;
        }
        for host in &now {
            match leaf::shown(&self.client, host).await {
                Ok(leaf) if self.tree.had(host, &leaf) => {}
                // PostgreSQL may complete a removal that the process had sent.
                Err(_) if !self.tree.has(host) => {}
                shown => {
                    println!("wrong after the kill: {host}: {shown:?}");
                    counts.wrong += 1;
                }
            }
        }
        Ok(())
    }

    /// Judges the store after the repetition, which the server has to notice first.
    async fn judge_whole(&self, counts: &mut Counts) -> Result<()> {
        let now = stored(&self.sealer).await?;
        for host in self.tree.hosts() {
            if !now.contains(host) {
                println!("lost: {host}");
                counts.lost += 1;
            }
        }
        for host in now {
            if !self.tree.has(&host) {
                println!("wrong: {host} is no longer in the source");
                counts.wrong += 1;
            } else if let Err(error) = self.shows_newest(&host).await {
                println!("wrong: {host}: {error:#}");
                counts.wrong += 1;
            }
        }
        Ok(())
    }

    /// Waits until a host is served with the newest certificate of the source.
    async fn shows_newest(&self, host: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let leaf = leaf::shown(&self.client, host).await?;
            if self.tree.is_newest(host, &leaf) {
                return Ok(());
            }
            ensure!(begun.elapsed() < NOTICED, "still served with {leaf}");
            sleep(PAUSE).await;
        }
    }
}

const PRUNE: [&str; 3] = ["--prune", "--prune-at-most", MOST];
/// More than the source loses between two imports.
const MOST: &str = "1000";
/// Hosts that are added and removed at once.
const SOME: usize = 5;
/// Time of a watcher after a change: longer than it needs.
const WATCHED: Duration = Duration::from_secs(3);
/// Time within which the server serves what was stored.
const NOTICED: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
const REPORT_EVERY: u32 = 10;

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Starts a PostgreSQL of its own. A host is lost if the source has it and the store does not: after
a kill, if it was stored before, and after the import is repeated. It is wrong if the server shows
what the source never had for it, and after the repetition, anything but the newest; so is one that
a watcher, half of which are judged before their kill, does not renew within seconds of a change.

Examples:
  sekisho-system-tests bulk-faults
  sekisho-system-tests bulk-faults --kills 8 --hosts 100 --sekisho target/debug/sekisho
";
