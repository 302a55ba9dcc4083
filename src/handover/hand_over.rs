//! Hands a serving server over to a new process.

use std::pin::pin;

use sekisho_certs::Clock;
use sekisho_server::Phase;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::give::{Successor, give};
use super::keeper;
use super::message::{Complete, Control, Message, ProcessState, Signal};
use super::notify;
use super::older::{Event, OlderProcesses};
use super::run::{Handover, LET_GO, Next, Request, ask};
use crate::terminal::failure::Result;

impl Handover {
    /// Hands over. None if that fails, or if the server is to end: it serves on.
    pub(super) async fn hand_over(&mut self, request: Request) -> Option<Successor> {
        if self.shutdown.phase() > Phase::Serving {
            request.answer(Err(ENDING.into()));
            return None;
        }
        let (kind, begun) = (request.kind, Instant::now());
        tracing::info!(%kind, "hand-over: starting a new process");
        if self.is_keeper() {
            keeper::adopt();
        }
        let given = match self.start_successor(kind).await {
            Ok(given) => given,
            Err(end) => {
                self.handle(end).await;
                self.estate.take_back().await;
                request.answer(Err(ENDING.into()));
                return None;
            }
        };
        match given {
            Ok(successor) => {
                self.commit(request, &successor, begun).await;
                Some(successor)
            }
            Err(error) => {
                self.estate.take_back().await;
                let error = format!("{error:#}");
                tracing::error!(%kind, error, "hand-over failed: this process serves on");
                self.record.failed(kind, &error);
                request.answer(Err(error));
                None
            }
        }
    }

    /// Starts a process that takes over, and hears signals meanwhile.
    ///
    /// # Errors
    /// The signal or event that ends the server. The new process is ended then.
    async fn start_successor(
        &mut self,
        kind: Control,
    ) -> std::result::Result<Result<Successor>, Next> {
        let state = self.record.state();
        let this = ProcessState {
            pid: std::process::id(),
            keeper: self.is_keeper(),
            idle: false,
            ending: false,
            connections: self.record.connections(),
            since: Clock::System.now(),
        };
        let complete = Complete {
            kind,
            from: this,
            cut: self.older.cut(),
            handovers: state.handovers + 1,
            service_began: state.service_began,
        };
        let links = match self.older.links() {
            Ok(links) => links,
            Err(error) => return Ok(Err(error.into())),
        };
        let launcher = (&self.launcher, &self.program);
        let mut giving = pin!(give(launcher, &self.estate, links, complete));
        loop {
            let (signal, name) = tokio::select! {
                given = &mut giving => return Ok(given),
                signal = self.signals.next() => match signal {
                    (Signal::Drain, name) => return Err(Next::Signal(Signal::Drain, name)),
                    signal => signal,
                },
                event = self.older.event() => match event {
                    Event::KeeperKilled | Event::Signal(Signal::Drain) => {
                        return Err(Next::OlderProcess(event));
                    }
                    Event::Signal(signal) => (signal, "signal to the first process"),
                    Event::Changed => {
                        self.record.older(self.older.states(), self.older.cut());
                        continue;
                    }
                },
                () = self.watchdog.turned() => continue,
            };
            match (signal, &self.reopen) {
                (Signal::ReopenLogs, Some(reopen)) => reopen(),
                (Signal::ReopenLogs, None) | (Signal::Drain, _) => {}
                (Signal::Reload, _) => ask(&mut self.asked, Control::Reload, name),
                (Signal::Upgrade, _) => ask(&mut self.asked, Control::Upgrade, name),
            }
        }
    }

    /// Leaves new connections to the new process, and tells everybody.
    async fn commit(&mut self, request: Request, successor: &Successor, begun: Instant) {
        let (kind, pid) = (request.kind, successor.pid);
        let let_go = self.estate.let_go.take();
        if let Some(let_go) = let_go.map(|let_go| let_go(successor.takes_admin))
            && timeout(LET_GO, let_go).await.is_err()
        {
            tracing::warn!("not everything was closed within {LET_GO:?}: the new process begins");
        }
        // Who waits here asks the new process.
        self.requests.close();
        while self.requests.try_recv().is_ok() {}
        notify::main_pid(pid);
        // From here the new process hears the older ones.
        self.older = OlderProcesses::default();
        self.estate.listeners.clear();
        self.estate.admin = None;
        self.estate.disk_cache = None;
        // The new process accepts already: for a moment both do.
        self.shutdown.leave();
        successor.link.tell(&Message::Yours).await;
        let milliseconds = begun.elapsed().as_millis();
        tracing::info!(%kind, pid, milliseconds, "handed over: the new process serves");
        request.answer(Ok(format!(
            "{kind}: process {pid} serves after {milliseconds} ms"
        )));
        if let Some(give_back) = self.estate.give_back.take() {
            // Freeing the caches takes a while, and the answer waits to be sent.
            drop(spawn_blocking(give_back));
        }
    }
}

const ENDING: &str = "the server is ending";
