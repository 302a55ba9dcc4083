//! Adds, replaces and removes hosts with the commands, as an operator does.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::fs;
use tokio::process::Command;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::authority::Authority;
use super::field::Field;
use super::ledger::{BOUND, State};
use super::plan::SERVERS;
use sekisho_bench::load::SplitMix;

/// Writer with its own hosts: the writes to one host must be sequential.
pub(crate) struct Writer {
    field: Rc<Field>,
    authority: Rc<Authority>,
    commands: Commands,
    number: usize,
    random: SplitMix,
    /// The writer's hosts, with their last acknowledged states.
    hosts: Vec<(String, State)>,
    generation: u64,
    rest: Duration,
}

impl Writer {
    pub(crate) fn new(
        field: Rc<Field>,
        authority: Rc<Authority>,
        commands: Commands,
        number: usize,
        random: SplitMix,
    ) -> Self {
        let names = field.names.borrow();
        let own = names.changing.iter().skip(number).step_by(WRITERS);
        let hosts = own.map(|host| (host.clone(), State::Generation(0)));
        let hosts = hosts.collect();
        drop(names);
        Self {
            field,
            authority,
            commands,
            number,
            random,
            hosts,
            generation: 0,
            rest: WRITE_INTERVAL,
        }
    }

    /// Writes until it is dropped.
    ///
    /// # Errors
    ///
    /// If a command can't be started.
    pub(crate) async fn run(mut self) -> Result<()> {
        loop {
            let (index, state) = self.choose();
            if self.write(&self.hosts[index].0, state).await? == Done::Acknowledged {
                self.hosts[index].1 = state;
            }
            sleep(self.rest).await;
        }
    }

    /// Chooses the next write. A fifth add a new host, and up to a fifth remove
    /// one. The rest replace a host, or add a removed one again.
    fn choose(&mut self) -> (usize, State) {
        self.generation += 1;
        let next = State::Generation(self.generation);
        let kind = self.random.below(5);
        if kind == 0 {
            let host = format!("new{}-{}.chaos.test", self.number, self.generation);
            self.hosts.push((host, State::Absent));
            return (self.hosts.len() - 1, next);
        }
        let index = self.random.below(self.hosts.len());
        match self.hosts[index].1 {
            State::Generation(_) if kind == 1 => (index, State::Absent),
            _ => (index, next),
        }
    }

    async fn write(&self, host: &str, state: State) -> Result<Done> {
        let pair = match state {
            State::Generation(number) => Some(self.authority.issue(host, number)?),
            State::Absent => None,
        };
        let begun = self.field.now();
        self.field
            .judge
            .borrow_mut()
            .ledger
            .begin(host, state, begun);
        let done = match pair {
            Some(pair) => self.commands.import(&pair.chain, &pair.key).await?,
            None => self.commands.remove(host).await?,
        };
        let now = self.field.now();
        let mut judge = self.field.judge.borrow_mut();
        match done {
            Done::Acknowledged => {
                judge.ledger.acknowledge(host, now);
                judge.counts.acknowledged += 1;
            }
            Done::Refused => judge.counts.refused += 1,
        }
        drop(judge);
        self.show(host);
        if done == Done::Acknowledged && self.field.is_whole() {
            for server in 0..SERVERS {
                spawn_local(spread(
                    self.field.clone(),
                    server,
                    host.to_owned(),
                    state,
                    now,
                ));
            }
        }
        Ok(done)
    }

    /// Adds a new host to those that clients visit.
    fn show(&self, host: &str) {
        let mut names = self.field.names.borrow_mut();
        if !names.changing.iter().any(|known| known == host) {
            names.changing.push(host.to_owned());
        }
    }
}

/// Visits a server until it serves what was written, and records the time.
/// Gives up after [`BOUND`], or at an outage.
async fn spread(field: Rc<Field>, server: usize, host: String, state: State, written: Duration) {
    while field.is_whole() && field.now() < written + BOUND {
        let Some(seen) = field.visit(server, &host).await else {
            return;
        };
        if seen.state() == Some(state) {
            let took = field.now() - written;
            field.judge.borrow_mut().counts.propagated(took);
            return;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The real commands, run in a folder with a configuration.
pub(crate) struct Commands {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Acknowledged,
    /// The write failed or took too long: it may have taken effect.
    Refused,
}

impl Commands {
    async fn import(&self, chain: &str, key: &str) -> Result<Done> {
        fs::write(self.folder.join("a.crt"), chain).await?;
        fs::write(self.folder.join("a.key"), key).await?;
        self.run(&["cert", "import", "--chain", "a.crt", "--key", "a.key"])
            .await
    }

    async fn remove(&self, host: &str) -> Result<Done> {
        self.run(&["host", "remove", host]).await
    }

    async fn run(&self, args: &[&str]) -> Result<Done> {
        let mut command = command(&self.binary, &self.folder, args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("a command")?;
        let ended = timeout(COMMAND_TIMEOUT, child.wait()).await;
        Ok(
            match ended.map(|status| status.is_ok_and(|status| status.success())) {
                Ok(true) => Done::Acknowledged,
                Ok(false) | Err(_) => Done::Refused,
            },
        )
    }
}

/// Builds a command. Dropping its child kills the process.
pub(crate) fn command(binary: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .args(args)
        .current_dir(folder)
        .env_remove("SEKISHO_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

pub(crate) const WRITERS: usize = 3;
/// Pause between two writes of one writer.
const WRITE_INTERVAL: Duration = Duration::from_millis(400);
/// Pause between two visits that look for a change.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Shorter than the bounds of a command itself: a stuck command counts as
/// refused soon.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(15);
