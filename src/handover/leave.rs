//! Serves open connections to their end, in a process that has handed over.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use sekisho_server::Phase;
use tokio::time::{sleep, timeout};

use super::channel::{Channel, Received};
use super::give::Successor;
use super::message::{Control, Message, Signal};
use super::run::{Handover, Outcome, Served};
use crate::terminal::failure::Result;

/// What a process that has handed over knows of the newest one.
struct Newest {
    link: Channel,
    pid: u32,
    /// It has ended.
    is_gone: bool,
    /// Connections that it was last told of.
    told: Option<u64>,
}

impl Handover {
    /// Serves open connections until they have ended, the newest process says so, or
    /// `handover_timeout` is over.
    pub(super) async fn serve_rest(
        mut self,
        successor: Successor,
        mut serving: Pin<&mut impl Future<Output = Served>>,
    ) -> Result<Outcome> {
        let Successor { link, pid, .. } = successor;
        let mut newest = Newest {
            link,
            pid,
            is_gone: false,
            told: None,
        };
        self.pass_on_asked(&newest).await;
        let mut over = pin!(sleep(self.timeout));
        let mut is_over = false;
        let cut = loop {
            tokio::select! {
                served = &mut serving => break self.cut(served),
                signal = self.signals.next() => self.after(signal, &newest).await,
                received = newest.link.receive(), if !newest.is_gone => {
                    self.hear(received, &mut newest).await;
                }
                () = sleep(TELL) => newest.tell(self.record.connections()).await,
                () = &mut over, if !is_over => {
                    is_over = true;
                    let connections = self.record.connections();
                    tracing::warn!(connections, "[server] handover_timeout is over: cutting off");
                    self.shutdown.end();
                }
            }
        };
        self.finish(newest, cut).await
    }

    /// Returns how many connections were cut off. An error of this process is none of the
    /// service, which another one serves.
    fn cut(&self, served: Served) -> u64 {
        served.map_or_else(
            |error| {
                let connections = self.record.connections();
                tracing::error!(%error, connections, "this process ends, and cuts off connections");
                connections
            },
            |cut| cut as u64,
        )
    }

    /// Passes on a hand-over that was asked for during this one: it may be for a newer
    /// configuration.
    async fn pass_on_asked(&mut self, newest: &Newest) {
        if let Some((_, kind)) = self.asked.take() {
            let signal = match kind {
                Control::Reload => Signal::Reload,
                Control::Upgrade => Signal::Upgrade,
            };
            newest.link.tell(&Message::Signal { signal }).await;
        }
    }

    /// Handles a signal. The keeper of the pid passes it on: it is meant for the service.
    async fn after(&mut self, (signal, name): (Signal, &str), newest: &Newest) {
        let keeps = self.is_keeper() && !newest.is_gone;
        match signal {
            signal if keeps => newest.link.tell(&Message::Signal { signal }).await,
            Signal::Drain | Signal::ReopenLogs => self.signal(signal, true, name).await,
            Signal::Reload | Signal::Upgrade => {
                tracing::warn!("{name} ignored: process {} serves", newest.pid);
            }
        }
    }

    /// Handles what the newest process says, and its end.
    async fn hear(&mut self, received: io::Result<Option<Received>>, newest: &mut Newest) {
        let Ok(Some(received)) = received else {
            newest.is_gone = true;
            if self.shutdown.phase() < Phase::Draining {
                tracing::error!(newest.pid, "the newest process has ended: this one drains");
                self.shutdown.drain();
            }
            return;
        };
        match received.message {
            Message::Drain => self.shutdown.drain(),
            Message::CutOff => self.shutdown.end(),
            Message::ReopenLogs => {
                self.signal(Signal::ReopenLogs, true, "the newest process")
                    .await;
            }
            Message::Newest { pid } => newest.pid = pid,
            // A later version may say more.
            _ => {}
        }
    }

    /// Holds signals back for the program that keeps the pid, and passes on those that came
    /// before.
    async fn hold_signals(&mut self, newest: &Newest) {
        if let Some(thread) = self.thread.take() {
            thread.hold();
        }
        while let Ok((signal, _)) = timeout(LAST_SIGNALS, self.signals.next()).await {
            newest.link.tell(&Message::Signal { signal }).await;
        }
    }

    /// Says how many connections were cut off, and ends.
    async fn finish(mut self, mut newest: Newest, cut: u64) -> Result<Outcome> {
        newest.link.tell(&Message::Cut { connections: cut }).await;
        if let Some(mut finished) = self.estate.finished.take() {
            loop {
                tokio::select! {
                    () = &mut finished => break,
                    signal = self.signals.next() => {
                        self.after(signal, &newest).await;
                        if self.shutdown.phase() >= Phase::Draining {
                            break;
                        }
                    }
                    received = newest.link.receive(), if !newest.is_gone => {
                        self.hear(received, &mut newest).await;
                    }
                }
            }
        }
        tracing::info!(cut, "ended after the hand-over");
        if self.is_keeper() {
            self.hold_signals(&newest).await;
        }
        let keeper = match self.is_keeper() {
            true => Some((newest.link.into_link()?, newest.pid)),
            false => None,
        };
        Ok(Outcome {
            keeper,
            is_replaced: true,
        })
    }
}

impl Newest {
    /// Says how many connections are still open, if that has changed.
    async fn tell(&mut self, connections: u64) {
        if self.told.replace(connections) != Some(connections) {
            self.link.tell(&Message::Open { connections }).await;
        }
    }
}

/// Time in which the runtime sees signals that were received.
const LAST_SIGNALS: Duration = Duration::from_millis(2);
/// Interval in which an older process says how many connections are open.
const TELL: Duration = Duration::from_secs(1);
