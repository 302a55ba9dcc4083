//! Load beside an import: visits of hot hosts at a constant rate, and changes of a host
//! that both servers must show.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sekisho_bench::load::client::Client;
use sekisho_bench::load::{Failure, Outcome, Tally};
use sekisho_bench::tls::{Group, Offer, Trust, Version};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use super::archive::host;
use super::field::{Field, PAGE};

/// Visits and changes that go on until they are told to end.
pub(super) struct Beside {
    has_ended: Rc<Cell<bool>>,
    visits: JoinHandle<Result<Outcome>>,
}

impl Beside {
    /// Begins to visit the hot hosts of the first server.
    pub(super) fn begin(field: &Field) -> Result<Self> {
        let (address, _) = field.servers[0].serving().context("it serves")?;
        let client = Rc::new(client(address)?.with_length(PAGE.len()));
        let has_ended = Rc::new(Cell::new(false));
        let visits = spawn_local(visit(client, Rc::clone(&has_ended)));
        Ok(Self { has_ended, visits })
    }

    /// Returns whether the end was told.
    pub(super) fn end_told(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.has_ended)
    }

    /// Ends the visits; returns what they took. None may have failed.
    pub(super) async fn end(self) -> Result<Outcome> {
        self.has_ended.set(true);
        let outcome = self.visits.await??;
        let Outcome { failed, errors, .. } = &outcome;
        ensure!(*failed == 0, "{failed} visits failed: {errors:?}");
        Ok(outcome)
    }
}

/// Visits one host after the other by the clock: one that takes long delays no other, and
/// counts from when it was due.
async fn visit(client: Rc<Client>, has_ended: Rc<Cell<bool>>) -> Result<Outcome> {
    let tally = Rc::new(RefCell::new(Tally::new()?));
    let (begun, open) = (Instant::now(), Rc::new(Cell::new(0_u32)));
    let mut due = begun;
    for number in 0_usize.. {
        if has_ended.get() {
            break;
        }
        due += GAP;
        sleep_until(due).await;
        ensure!(
            open.get() < MAX_OPEN,
            "{MAX_OPEN} visits wait for an answer"
        );
        open.set(open.get() + 1);
        // The first one is changed meanwhile.
        let name = host(HOT, 1 + number % (HOT_HOSTS - 1));
        let (client, tally, open) = (Rc::clone(&client), Rc::clone(&tally), Rc::clone(&open));
        spawn_local(async move {
            match client.visit(&name, Some("/"), &mut Vec::new()).await {
                Ok(_) => tally.borrow_mut().operation(due.elapsed()),
                Err(failure) => tally.borrow_mut().failure(&failure, &name),
            }
            open.set(open.get() - 1);
        });
    }
    while open.get() > 0 {
        sleep(PAUSE).await;
    }
    let tally = tally.borrow().clone();
    Ok(tally.outcome(begun.elapsed()))
}

/// Changes the first hot host again and again until the end is told, at least once. Returns the
/// longest time from the end of the command until both servers showed a change.
pub(super) async fn change(field: &Field, has_ended: &Cell<bool>) -> Result<Duration> {
    let addresses = field.servers.iter().map(|server| {
        let (address, _) = server.serving().context("it serves")?;
        client(address)
    });
    let clients = addresses.collect::<Result<Vec<_>>>()?;
    let (name, mut longest) = (host(HOT, 0), Duration::ZERO);
    for status in [503, 451].into_iter().cycle() {
        let text = status.to_string();
        let mut command = field.command(&["host", "set", &name, "--status", &text]);
        let set = command.output().await?;
        let said = String::from_utf8_lossy(&set.stderr);
        ensure!(set.status.success(), "host set: {}: {said}", set.status);
        let begun = Instant::now();
        for client in &clients {
            while !shows(client, &name, status).await? {
                ensure!(begun.elapsed() < PATIENCE, "{name} does not change");
                sleep(PAUSE).await;
            }
        }
        longest = longest.max(begun.elapsed());
        if has_ended.get() {
            break;
        }
        sleep(BETWEEN_CHANGES).await;
    }
    Ok(longest)
}

/// Tells whether a host answers with a status.
async fn shows(client: &Client, name: &str, status: u16) -> Result<bool> {
    match client.visit(name, Some("/"), &mut Vec::new()).await {
        Ok(_) => Ok(false),
        Err(Failure::Status(shown)) => Ok(shown == status),
        Err(failure) => bail!("{name}: {}", failure.kind()),
    }
}

/// Makes a client that verifies nothing, which costs it little.
pub(super) fn client(address: SocketAddr) -> Result<Client> {
    let offer = Offer {
        version: Version::Tls13,
        group: Group::X25519,
        trust: Trust::Anyone,
        resume: None,
    };
    Client::new(address, &offer, DEADLINE)
}

/// Beginning of the names of the hot hosts.
pub(super) const HOT: &str = "hot";
pub(super) const HOT_HOSTS: usize = 100;
/// Time between two visits: 500 a second.
const GAP: Duration = Duration::from_millis(2);
/// Visits that may wait at once: those of two seconds.
const MAX_OPEN: u32 = 1000;
const BETWEEN_CHANGES: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);
