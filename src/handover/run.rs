//! Runs a server from its start to its end, hand-overs on the way: it takes over, serves,
//! hands over, and leaves.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use sekisho_server::{Phase, Shutdown};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::channel::{Channel, Link};
use super::elders::{Elders, Event};
use super::give::{self, Estate, Successor, give};
use super::keeper;
use super::launch::{Launcher, Program};
use super::message::{Kind, Message, Signal};
use super::notify::{self, Watchdog};
use super::record::Record;
use super::signals::Signals;
use super::take::Predecessor;
use crate::terminal::failure::Result;

/// Result of a server: how many connections were cut off at its end.
type Served = std::result::Result<usize, sekisho_server::Error>;

/// Asks for a hand-over.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// Where the outcome is told: what happened, or why nothing did.
    pub(crate) reply: oneshot::Sender<std::result::Result<String, String>>,
}

/// Server that can hand over.
pub(crate) struct Handover {
    pub(crate) program: Program,
    pub(crate) launcher: Launcher,
    pub(crate) estate: Estate,
    pub(crate) elders: Elders,
    /// Process that hands over to this one.
    pub(crate) predecessor: Option<Predecessor>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) signals: Signals,
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
}

/// What is left of a process whose server has ended.
#[derive(Debug)]
pub(crate) struct Left {
    /// Link to the newest process and its pid, if this one keeps the pid for it.
    pub(crate) keeper: Option<(Link, u32)>,
    /// Another process serves.
    pub(crate) is_replaced: bool,
}

/// Counts how often the end was asked for, by signals to this process and by those to the
/// keeper of its pid. Both may be one signal to a whole control group.
#[derive(Debug, Default)]
struct Ends {
    own: u8,
    kept: u8,
}

impl Handover {
    /// Runs `serving`, which ends with its shutdown, until the process may end.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn run(mut self, serving: impl Future<Output = Served>) -> Result<Left> {
        let mut serving = pin!(serving);
        if let Some(predecessor) = self.predecessor.take() {
            tokio::select! {
                served = &mut serving => drop(served?),
                taken = self.take_over(predecessor) => taken?,
            }
        }
        if let Some(begin) = self.begin.take() {
            begin();
        }
        notify::ready();
        let (mut ends, mut asked) = (Ends::default(), None);
        loop {
            let event = tokio::select! {
                served = &mut serving => return self.ended(served?).await,
                event = self.next(&mut asked) => event,
            };
            let Some(request) = self.handle(event, &mut ends, &mut asked).await else {
                continue;
            };
            let Some(successor) = self.hand_over(request, &mut ends, &mut asked).await else {
                continue;
            };
            return self.leave(successor, asked, serving.as_mut()).await;
        }
    }

    /// Says that this process serves, and waits until the other one has let go.
    async fn take_over(&mut self, predecessor: Predecessor) -> Result<()> {
        if let Some(warm) = self.warm.take() {
            warm.await;
        }
        let Predecessor {
            link, kind, state, ..
        } = predecessor;
        let link = Channel::new(link)?;
        let takes_admin = self.takes_admin;
        link.tell(&Message::Ready { takes_admin }).await;
        // It needs milliseconds. If it was killed meanwhile, this process is alone.
        let yours = timeout(LET_GO * 2, link.receive()).await;
        if matches!(yours, Ok(Ok(Some(_)))) {
            self.elders.add(state, link);
            self.elders.keep_few().await;
        }
        self.elders.tell_keeper(std::process::id()).await;
        self.record.took_over(kind, self.elders.states());
        Ok(())
    }

    /// Waits for the next signal or request.
    async fn next(&mut self, asked: &mut Option<(Instant, Kind)>) -> Next {
        let due = asked.map(|(at, _)| at);
        let settled = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (signal, name) = self.signals.next() => Next::Signal(signal, name),
            event = self.elders.event() => Next::Elder(event),
            Some(request) = self.requests.recv() => Next::Request(request),
            () = settled => Next::Settled,
            () = self.watchdog.turned() => Next::Nothing,
        }
    }

    /// Handles a signal or a request. Returns a request whose time has come.
    async fn handle(
        &mut self,
        next: Next,
        ends: &mut Ends,
        asked: &mut Option<(Instant, Kind)>,
    ) -> Option<Request> {
        let (signal, name, is_own) = match next {
            Next::Signal(signal, name) => (signal, name, true),
            Next::Elder(Event::Signal(signal)) => (signal, "signal to the first process", false),
            Next::Elder(Event::KeeperKilled) => {
                tracing::error!("the process that keeps the pid was killed: this one ends too");
                self.shutdown.drain();
                self.elders.end().await;
                return None;
            }
            Next::Elder(Event::Changed) => {
                self.record.elders(self.elders.states(), self.elders.cut());
                return None;
            }
            Next::Request(request) => return Some(request),
            Next::Settled => {
                let (_, kind) = asked.take()?;
                return Some(Request::by_signal(kind));
            }
            Next::Nothing => return None,
        };
        match signal {
            Signal::End => self.end(ends, is_own, name).await,
            Signal::ReopenLogs => self.reopen_logs(name).await,
            Signal::Reload => ask(asked, Kind::Reload, name),
            Signal::Upgrade => ask(asked, Kind::Upgrade, name),
        }
        None
    }

    /// Drains at the first signal of either sender, and ends at the second.
    async fn end(&mut self, ends: &mut Ends, is_own: bool, name: &str) {
        let count = match is_own {
            true => &mut ends.own,
            false => &mut ends.kept,
        };
        *count = count.saturating_add(1);
        match *count {
            1 => {
                tracing::info!("{name}: draining");
                notify::stopping();
                self.shutdown.drain();
                self.elders.end().await;
            }
            _ => {
                tracing::info!("{name}: ending");
                self.shutdown.end();
                self.elders.end_now().await;
            }
        }
    }

    async fn reopen_logs(&self, name: &str) {
        match &self.reopen {
            Some(reopen) => reopen(),
            None => tracing::warn!("{name}: no access log to open again"),
        }
        self.elders.reopen_logs().await;
    }

    /// Hands over. None if that fails, or if the server is to end: it serves on.
    async fn hand_over(
        &mut self,
        request: Request,
        ends: &mut Ends,
        asked: &mut Option<(Instant, Kind)>,
    ) -> Option<Successor> {
        if self.shutdown.phase() > Phase::Serving {
            request.answer(Err("the server is ending".into()));
            return None;
        }
        let (kind, begun) = (request.kind, Instant::now());
        tracing::info!(%kind, "hand-over: starting a new process");
        if self.is_keeper() {
            keeper::adopt();
        }
        let from = give::this(
            self.is_keeper(),
            self.record.connections(),
            self.record.now(),
        );
        let begin = Message::Begin {
            kind,
            from,
            cut: self.elders.cut(),
            handovers: self.record.handovers() + 1,
        };
        let given = {
            let (launcher, elders) = ((&self.launcher, &self.program), &self.elders);
            let mut giving = pin!(give(launcher, &self.estate, elders, begin, kind));
            loop {
                let signal = tokio::select! {
                    given = &mut giving => break Some(given),
                    (signal, name) = self.signals.next() => (signal, name),
                    () = self.watchdog.turned() => continue,
                };
                match signal {
                    (Signal::End, _) => break None,
                    (Signal::ReopenLogs, _) => {
                        if let Some(reopen) = &self.reopen {
                            reopen();
                        }
                    }
                    (Signal::Reload, name) => ask(asked, Kind::Reload, name),
                    (Signal::Upgrade, name) => ask(asked, Kind::Upgrade, name),
                }
            }
        };
        match given {
            Some(Ok(successor)) => {
                self.given(request, &successor, begun).await;
                Some(successor)
            }
            Some(Err(error)) => {
                self.estate.take_back().await;
                let error = format!("{error:#}");
                tracing::error!(%kind, error, "hand-over failed: this process serves on");
                self.record.failed(kind, &error);
                request.answer(Err(error));
                None
            }
            None => {
                self.estate.take_back().await;
                request.answer(Err("the server is ending".into()));
                self.end(ends, true, "signal").await;
                None
            }
        }
    }

    /// Lets go, and tells everybody that the new process serves.
    async fn given(&mut self, request: Request, successor: &Successor, begun: Instant) {
        let (kind, pid) = (request.kind, successor.pid);
        let let_go = self.estate.let_go.take();
        let let_go = let_go.map(|let_go| let_go(successor.takes_admin));
        if let Some(let_go) = let_go
            && timeout(LET_GO, let_go).await.is_err()
        {
            tracing::warn!("not everything was closed within {LET_GO:?}: the new process begins");
        }
        notify::main_pid(pid);
        // From here the new process hears the older ones.
        self.elders = Elders::default();
        self.estate.listeners.clear();
        self.estate.admin = None;
        self.estate.disk_cache = None;
        successor.link.tell(&Message::Yours).await;
        self.shutdown.leave();
        let milliseconds = begun.elapsed().as_millis();
        tracing::info!(%kind, pid, milliseconds, "handed over: the new process serves");
        request.answer(Ok(format!(
            "{kind}: process {pid} serves after {milliseconds} ms"
        )));
        if let Some(give_back) = self.estate.give_back.take() {
            give_back();
        }
    }

    /// Serves open connections until they have ended, the new process says so, or
    /// `handover_timeout` is over.
    async fn leave(
        mut self,
        successor: Successor,
        asked: Option<(Instant, Kind)>,
        mut serving: Pin<&mut impl Future<Output = Served>>,
    ) -> Result<Left> {
        let Successor { link, mut pid, .. } = successor;
        let mut ends = Ends::default();
        let keeper = self.is_keeper();
        if let Some((_, kind)) = asked {
            link.tell(&Message::Signal {
                signal: kind.into(),
            })
            .await;
        }
        let mut over = pin!(sleep(self.timeout));
        let (mut told, mut is_over, mut is_alone) = (u64::MAX, false, false);
        let cut = loop {
            tokio::select! {
                served = &mut serving => break served?,
                (signal, name) = self.signals.next() => match signal {
                    signal if keeper && !is_alone => link.tell(&Message::Signal { signal }).await,
                    Signal::End => self.end(&mut ends, true, name).await,
                    Signal::ReopenLogs => self.reopen_logs(name).await,
                    Signal::Reload | Signal::Upgrade => {
                        tracing::warn!("{name} ignored: process {pid} serves");
                    }
                },
                received = link.receive(), if !is_alone => match received {
                    Ok(Some(received)) => match received.message {
                        Message::End => self.shutdown.drain(),
                        Message::EndNow => self.shutdown.end(),
                        Message::ReopenLogs => self.reopen_logs("the new process").await,
                        Message::Newest { pid: newest } => pid = newest,
                        _ => {}
                    },
                    _ => {
                        is_alone = true;
                        tracing::error!(pid, "the new process has ended: this one drains");
                        self.shutdown.drain();
                    }
                },
                () = sleep(TELL) => {
                    let connections = self.record.connections();
                    if std::mem::replace(&mut told, connections) != connections {
                        link.tell(&Message::Open { connections }).await;
                    }
                }
                () = &mut over, if !is_over => {
                    is_over = true;
                    let connections = self.record.connections();
                    tracing::warn!(connections, "[server] handover_timeout is over: cutting off");
                    self.shutdown.end();
                }
            }
        };
        let connections = cut as u64;
        link.tell(&Message::Cut { connections }).await;
        tracing::info!(cut, "ended after the hand-over");
        let keeper = match keeper {
            true => Some((link.into_link()?, pid)),
            false => None,
        };
        Ok(Left {
            keeper,
            is_replaced: true,
        })
    }

    /// Waits for the older processes, which were told to end as this one was.
    async fn ended(mut self, cut: usize) -> Result<Left> {
        if cut > 0 {
            tracing::warn!(cut, "connections were cut off");
        }
        self.elders.end().await;
        // They need as long as this one at most. One that hangs is left behind.
        let _ = timeout(self.drain + LET_GO, self.elders.ended()).await;
        Ok(Left {
            keeper: None,
            is_replaced: false,
        })
    }

    /// Returns whether this process keeps the pid that whoever started it knows: it is the
    /// first one, and no service manager can be told of another.
    fn is_keeper(&self) -> bool {
        !self.record.is_successor() && !notify::has_manager()
    }
}

/// Next thing to handle.
enum Next {
    Signal(Signal, &'static str),
    Elder(Event),
    Request(Request),
    /// Signals of a second are one hand-over.
    Settled,
    Nothing,
}

impl Request {
    fn by_signal(kind: Kind) -> Self {
        let (reply, _) = oneshot::channel();
        Self { kind, reply }
    }

    /// Tells the outcome. Who asked by a signal reads the log.
    fn answer(self, outcome: std::result::Result<String, String>) {
        let _ = self.reply.send(outcome);
    }
}

impl From<Kind> for Signal {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Reload => Self::Reload,
            Kind::Upgrade => Self::Upgrade,
        }
    }
}

/// Asks for a hand-over in a while. An upgrade covers a reload.
fn ask(asked: &mut Option<(Instant, Kind)>, kind: Kind, name: &str) {
    match asked {
        Some((_, before)) if *before == Kind::Reload => *before = kind,
        Some(_) => {}
        None => {
            tracing::info!("{name}: {kind} in {SETTLE:?}, with all signals until then");
            *asked = Some((Instant::now() + SETTLE, kind));
        }
    }
}

/// From the first signal to the hand-over. Whoever changes several files sends several
/// signals, each of which would start a process.
const SETTLE: Duration = Duration::from_secs(1);
/// Time in which the old process lets go of what the new one needs alone.
const LET_GO: Duration = Duration::from_secs(3);
/// Interval in which an older process says how many connections are open.
const TELL: Duration = Duration::from_secs(1);
