//! Reloads and upgrades, one after the other, each judged by what new clients see.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use sekisho_bench::accounting::resident;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::field::{Field, Kind};
use super::plan::{Change, How, PLAN};
use super::program::Broken;
use super::setting::Setting;

pub(super) struct Director<'a> {
    pub(super) field: Rc<Field>,
    pub(super) setting: &'a Setting,
    pub(super) quick: bool,
}

impl Director<'_> {
    /// Does the first hand-overs of the plan.
    pub(super) async fn hand_over(&self, most: usize) -> Result<()> {
        self.pause().await;
        for (number, (how, change)) in PLAN.into_iter().take(most).enumerate() {
            self.sockets_are_ready().await?;
            self.field.generations.take_slowest();
            let told = match how {
                How::Broken => self.fail().await,
                _ => self.succeed(how, change).await,
            };
            let told = told.with_context(|| format!("{how}, {change}"))?;
            println!("{} {:2} {told}", self.field.now(), number + 1);
            self.pause().await;
            self.tell().await?;
        }
        Ok(())
    }

    /// Ends the server and starts it again.
    pub(super) async fn restart(&self) -> Result<()> {
        self.pause().await;
        println!("{} SIGTERM, and a start", self.field.now());
        self.setting.server.tell_to_end()?;
        self.setting.server.ended().await?;
        self.setting.server.start().await?;
        println!("{} started", self.field.now());
        self.pause().await;
        Ok(())
    }

    /// Lets the load run.
    pub(super) async fn rest(&self) -> Result<()> {
        sleep(REST).await;
        Ok(())
    }

    async fn pause(&self) {
        sleep(if self.quick { QUICK_PAUSE } else { PAUSE }).await;
    }

    /// Waits until no WebSocket would see its third hand-over.
    async fn sockets_are_ready(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.field.are_sockets_ready() {
            ensure!(
                begun.elapsed() < RENEWAL,
                "the WebSockets are not renewed in time"
            );
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Hands over, and waits until new connections are answered by the new configuration.
    async fn succeed(&self, how: How, change: Change) -> Result<String> {
        let next = self.setting.configuration().with(change);
        let generation = next.generation;
        self.setting.configure(next)?;
        if matches!(how, How::User2 | How::Upgrade) {
            self.setting.program.install()?;
        }
        let begun = Instant::now();
        match how {
            How::Hangup => self.setting.signal(Signal::HUP)?,
            How::User2 => self.setting.signal(Signal::USR2)?,
            How::Reload => self.command("reload").await?,
            How::Upgrade | How::Broken => self.command("upgrade").await?,
        }
        let answered = begun.elapsed();
        let seen = self.seen(generation, begun).await?;
        self.second_address(change).await?;
        self.field.took(Kind::Handovers, seen.max(answered));
        self.field.handed_over();
        Ok(format!(
            "{how}, {change}: answered after {} ms, seen by clients after {} ms",
            answered.as_millis(),
            seen.as_millis()
        ))
    }

    /// Tries an upgrade to a program that is none. The old one must serve on.
    async fn fail(&self) -> Result<String> {
        let broken = match self.quick {
            true => Broken::Exits,
            false => Broken::Hangs,
        };
        self.setting.program.install_broken(broken)?;
        let begun = Instant::now();
        let output = self.setting.command(&["upgrade"]).await?;
        let took = begun.elapsed();
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(
            output.status.code() == Some(1) && !said.is_empty(),
            "{}: {said:?}",
            output.status
        );
        self.setting.program.install()?;
        self.field.took(Kind::Handovers, took);
        Ok(format!(
            "{}, which {broken:?}: refused after {} ms: {said:?}",
            How::Broken,
            took.as_millis()
        ))
    }

    async fn command(&self, name: &str) -> Result<()> {
        let output = self.setting.command(&[name]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}: {}",
            output.status,
            said.trim()
        );
        Ok(())
    }

    /// Waits until a client is answered by this generation; returns how long it took.
    async fn seen(&self, generation: u32, begun: Instant) -> Result<Duration> {
        let generations = &self.field.generations;
        while generations.newest() < generation {
            if begun.elapsed() > HANDOVER {
                bail!("generation {generation} is not served in time");
            }
            sleep(POLL).await;
        }
        let since = generations.since().context("a generation is seen")?;
        Ok(since.saturating_duration_since(begun))
    }

    /// Checks that an address is open, or closed, once that is the change.
    async fn second_address(&self, change: Change) -> Result<()> {
        let Change::SecondAddress(open) = change else {
            return Ok(());
        };
        let (address, begun) = (self.setting.address(1), Instant::now());
        while TcpStream::connect(address).await.is_ok() != open {
            ensure!(begun.elapsed() < CLOSING, "{address} must be open: {open}");
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Prints what a hand-over has cost so far: both processes, and the slowest visit.
    async fn tell(&self) -> Result<()> {
        let pids = self.setting.program.processes()?;
        // A process may end meanwhile.
        let memory: u64 = pids.iter().filter_map(|pid| resident(*pid).ok()).sum();
        let generations = &self.field.generations;
        let overlap = match (generations.since(), generations.last_old()) {
            (Some(since), Some(last)) if last > since => (last - since).as_millis(),
            _ => 0,
        };
        println!(
            "              slowest visit {} ms, both answer for {overlap} ms; {} processes, {} MiB",
            generations.take_slowest().as_millis(),
            pids.len(),
            memory >> 20
        );
        Ok(())
    }
}

/// SIGHUPs within one second are one.
const QUICK_PAUSE: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(10);
const RENEWAL: Duration = Duration::from_secs(10);
const HANDOVER: Duration = Duration::from_secs(30);
/// Longest wait until an address is open or closed.
const CLOSING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);
