//! Runs a server from its start to its end: it takes over, serves, and hands over or drains.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use sekisho_server::{Phase, Shutdown};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::channel::{Channel, Link};
use super::give::Estate;
use super::launch::{Launcher, Program};
use super::message::{Complete, Control, Message, Signal};
use super::notify::{self, Watchdog};
use super::older::{Event, OlderProcesses};
use super::record::Record;
use super::signals::Signals;
use super::take::Predecessor;
use crate::process::SignalThread;
use crate::terminal::failure::Result;

/// Result of a server: how many connections were cut off at its end.
pub(super) type Served = std::result::Result<usize, sekisho_server::Error>;

/// Asks for a hand-over.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Control,
    /// Where the outcome is told: what happened, or why nothing did.
    pub(crate) reply: oneshot::Sender<std::result::Result<String, String>>,
}

/// Server that can hand over.
pub(crate) struct Handover {
    pub(crate) program: Program,
    pub(crate) launcher: Launcher,
    pub(crate) estate: Estate,
    pub(crate) older: OlderProcesses,
    /// Process that hands over to this one.
    pub(crate) predecessor: Option<Predecessor>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) signals: Signals,
    /// Thread that receives them.
    pub(crate) thread: Option<SignalThread>,
    pub(crate) shutdown: Shutdown,
    /// Opens the access log again, if there is one.
    pub(crate) reopen: Option<Box<dyn Fn() + Send>>,
    /// Prepares the memory cache, for at most a while, before the server says that it serves.
    pub(crate) warm: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Begins what only one process may do. Called once.
    pub(crate) begin: Option<Box<dyn FnOnce() + Send>>,
    /// `[server] drain_timeout`.
    pub(crate) drain: Duration,
    /// `[server] handover_timeout`.
    pub(crate) timeout: Duration,
    /// The admin listener's socket came from the process before.
    pub(crate) takes_admin: bool,
    pub(crate) record: Arc<Record>,
    pub(crate) watchdog: Watchdog,
    pub(crate) ends: Ends,
    pub(crate) asked: Asked,
}

/// Hand-over that signals have asked for, and its time.
pub(crate) type Asked = Option<(Instant, Control)>;

/// Counts how often the end was asked for, by signals to this process and by those to the
/// keeper of its pid. Both may be one signal to a whole control group.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    own: u8,
    kept: u8,
}

/// Outcome of a process whose server has ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Link to the newest process and its pid, if this one keeps the pid for it.
    pub(crate) keeper: Option<(Link, u32)>,
    /// Another process serves.
    pub(crate) is_replaced: bool,
}

/// Next thing to handle.
pub(super) enum Next {
    Signal(Signal, &'static str),
    OlderProcess(Event),
    Request(Request),
    /// The time of [`Asked`] has come.
    Settled,
    WatchdogFed,
}

impl Handover {
    /// Runs `serving`, which begins with its first poll and ends with its shutdown, until
    /// the process may end.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn run(mut self, serving: impl Future<Output = Served>) -> Result<Outcome> {
        let mut serving = pin!(serving);
        if let Some(predecessor) = self.predecessor.take() {
            let link = tokio::select! {
                biased;
                // The workers start with its first poll. One that can't ends this process.
                served = &mut serving => return self.ended(served?).await,
                link = self.say_ready(predecessor.link) => link?,
            };
            tokio::select! {
                served = &mut serving => return self.ended(served?).await,
                () = self.take_over(link, predecessor.complete) => {}
            }
        }
        if let Some(begin) = self.begin.take() {
            begin();
        }
        notify::ready();
        loop {
            let next = tokio::select! {
                served = &mut serving => return self.ended(served?).await,
                next = self.next() => next,
            };
            let Some(request) = self.handle(next).await else {
                continue;
            };
            if let Some(successor) = self.hand_over(request).await {
                return self.serve_rest(successor, serving).await;
            }
        }
    }

    /// Says that this process serves: all is bound and opened, and its workers accept. The
    /// other one accepts, too, until it has let go.
    async fn say_ready(&mut self, link: Link) -> Result<Channel> {
        if let Some(warm) = self.warm.take() {
            warm.await;
        }
        let link = Channel::new(link)?;
        let takes_admin = self.takes_admin;
        link.tell(&Message::Ready { takes_admin }).await;
        Ok(link)
    }

    /// Waits until the process before has let go, which needs milliseconds, but no longer
    /// than a while: both accept, and it leaves when it comes to it. If it was
    /// killed, this one is alone, or ends: whoever follows the pid of the first process
    /// takes the service as ended.
    async fn take_over(&mut self, link: Channel, Complete { kind, from, .. }: Complete) {
        let yours = timeout(LET_GO * 2, link.receive()).await;
        if yours.is_err() {
            tracing::warn!("the process before is slow to let go: this one begins");
        }
        if matches!(yours, Ok(Ok(Some(_))) | Err(_)) {
            self.older.add(from, link);
            self.older.keep_few().await;
        } else if from.keeper {
            tracing::error!("{KEEPER_KILLED}");
            self.shutdown.drain();
        }
        self.older.tell_keeper(std::process::id()).await;
        self.record.took_over(kind, self.older.states());
    }

    /// Waits for the next signal or request. Cancel-safe.
    async fn next(&mut self) -> Next {
        let due = self.asked.map(|(at, _)| at);
        let settled = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (signal, name) = self.signals.next() => Next::Signal(signal, name),
            event = self.older.event() => Next::OlderProcess(event),
            Some(request) = self.requests.recv() => Next::Request(request),
            () = settled => Next::Settled,
            () = self.watchdog.turned() => Next::WatchdogFed,
        }
    }

    /// Handles a signal or a request. Returns a request whose time has come.
    pub(super) async fn handle(&mut self, next: Next) -> Option<Request> {
        match next {
            Next::Signal(signal, name) => self.signal(signal, true, name).await,
            Next::OlderProcess(Event::Signal(signal)) => {
                self.signal(signal, false, "signal to the first process")
                    .await;
            }
            Next::OlderProcess(Event::KeeperKilled) => {
                tracing::error!("{KEEPER_KILLED}");
                self.shutdown.drain();
                self.older.drain().await;
            }
            Next::OlderProcess(Event::Changed) => {
                let (states, cut) = (self.older.states(), self.older.cut());
                self.record.older(states, cut);
            }
            Next::Request(request) => return Some(request),
            Next::Settled => {
                let (_, kind) = self.asked.take()?;
                return Some(Request::by_signal(kind));
            }
            Next::WatchdogFed => {}
        }
        None
    }

    /// Does what a signal asks for. It came to this process or to the keeper of its pid.
    pub(super) async fn signal(&mut self, signal: Signal, is_own: bool, name: &str) {
        match signal {
            Signal::Drain => self.end(is_own, name).await,
            Signal::ReopenLogs => {
                match &self.reopen {
                    Some(reopen) => reopen(),
                    None => tracing::warn!("{name}: no access log to open again"),
                }
                self.older.tell(&Message::ReopenLogs).await;
            }
            Signal::Reload => ask(&mut self.asked, Control::Reload, name),
            Signal::Upgrade => ask(&mut self.asked, Control::Upgrade, name),
        }
    }

    /// Drains at the first signal of either sender, and ends at the second.
    async fn end(&mut self, is_own: bool, name: &str) {
        let count = match is_own {
            true => &mut self.ends.own,
            false => &mut self.ends.kept,
        };
        *count = count.saturating_add(1);
        if *count == 1 {
            tracing::info!("{name}: draining");
            if self.shutdown.phase() == Phase::Serving {
                notify::stopping();
            }
            self.shutdown.drain();
            self.older.drain().await;
        } else {
            tracing::info!("{name}: ending");
            self.shutdown.end();
            self.older.tell(&Message::CutOff).await;
        }
    }

    /// Waits for the older processes, which were told to end as this one was.
    async fn ended(mut self, cut: usize) -> Result<Outcome> {
        if cut > 0 {
            tracing::warn!(cut, "connections were cut off");
        }
        self.older.drain().await;
        // They need as long as this one at most. A process that hangs is left behind.
        let mut late = pin!(sleep(self.drain + LET_GO));
        while self.older.are_left() {
            tokio::select! {
                next = self.next() => drop(self.handle(next).await),
                () = &mut late => break,
            }
        }
        Ok(Outcome {
            keeper: None,
            is_replaced: false,
        })
    }

    /// Returns whether this process keeps the pid that whoever started it knows: it is the
    /// first one, and no service manager can be told of another.
    pub(super) fn is_keeper(&self) -> bool {
        !self.record.is_successor() && !notify::has_manager()
    }
}

impl Request {
    fn by_signal(kind: Control) -> Self {
        let (reply, _) = oneshot::channel();
        Self { kind, reply }
    }

    /// Tells the outcome. Who asked by a signal reads the log.
    pub(super) fn answer(self, outcome: std::result::Result<String, String>) {
        let _ = self.reply.send(outcome);
    }
}

/// Asks for a hand-over in a while. An upgrade covers a reload.
pub(super) fn ask(asked: &mut Asked, kind: Control, name: &str) {
    match asked {
        Some((_, before)) if *before == Control::Reload => *before = kind,
        Some(_) => {}
        None => {
            tracing::info!("{name}: {kind} in {SETTLE:?}, with all signals until then");
            *asked = Some((Instant::now() + SETTLE, kind));
        }
    }
}

const KEEPER_KILLED: &str = "the process that keeps the pid was killed: this one ends too";
/// From the first signal to the hand-over. Whoever changes several files sends several
/// signals, each of which would start a process.
const SETTLE: Duration = Duration::from_secs(1);
/// Time in which the old process lets go of what the new one needs alone.
pub(super) const LET_GO: Duration = Duration::from_secs(3);
