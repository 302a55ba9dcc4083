//! What all clients share: tallies, and the hand-overs as the clients see them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use sekisho_bench::load::{Failure, Outcome, Tally};
use tokio::sync::watch;
use tokio::time::Instant;

use super::generations::Generations;

/// Operations that are counted together.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    /// New connection with one request.
    Handshakes,
    /// Request on a connection that is used again soon.
    KeptAlive,
    /// Request on a connection that was idle for seconds.
    Parked,
    Http2,
    Downloads,
    SlowDownloads,
    Http2Downloads,
    Uploads,
    Http2Uploads,
    /// Message and its echo.
    Websockets,
    /// Reload or upgrade, and its effect.
    Handovers,
    /// WebSocket that stays until the server cuts it.
    Cut,
}

/// Event that is no failure, but told.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Note {
    /// Answer with `Connection: close`.
    Close,
    /// HTTP/1.1 connection that the server ended between two requests.
    ClosedIdle,
    /// HTTP/2 connection that the server ended.
    GoAway,
    /// HTTP/2 request that was not sent, since a GOAWAY came before.
    Unsent,
    /// HTTP/2 request that the server had not begun, as its GOAWAY says.
    Undone,
    /// WebSocket that the client renewed after two hand-overs.
    Renewed,
}

pub(super) struct Field {
    begun: Instant,
    pub(super) generations: Generations,
    tallies: RefCell<BTreeMap<Kind, Tally>>,
    notes: RefCell<BTreeMap<Note, u64>>,
    told: Cell<u32>,
    /// Finished hand-overs.
    handovers: Cell<u32>,
    /// Finished hand-overs when each WebSocket was opened; None while it is not open.
    sockets: RefCell<Vec<Option<u32>>>,
    stopping: watch::Sender<bool>,
}

impl Field {
    pub(super) fn new(sockets: usize) -> Result<Self> {
        let tallies = Kind::ALL.map(|kind| Ok((kind, Tally::new()?)));
        let tallies: Result<BTreeMap<_, _>> = tallies.into_iter().collect();
        Ok(Self {
            begun: Instant::now(),
            generations: Generations::default(),
            tallies: RefCell::new(tallies?),
            notes: RefCell::default(),
            told: Cell::new(0),
            handovers: Cell::new(0),
            sockets: RefCell::new(vec![None; sockets]),
            stopping: watch::Sender::new(false),
        })
    }

    /// Returns the time since the start, to print.
    pub(super) fn now(&self) -> String {
        format!("[{:7.3} s]", self.begun.elapsed().as_secs_f64())
    }

    /// Counts an operation that was due at this time.
    pub(super) fn record(&self, kind: Kind, due: Instant, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.took(kind, due.elapsed()),
            Err(failure) => self.failed(kind, &failure),
        }
    }

    pub(super) fn took(&self, kind: Kind, took: Duration) {
        if let Some(tally) = self.tallies.borrow_mut().get_mut(&kind) {
            tally.operation(took);
        }
    }

    /// Counts a failure, and tells the first ones.
    pub(super) fn failed(&self, kind: Kind, failure: &Failure) {
        if let Some(tally) = self.tallies.borrow_mut().get_mut(&kind) {
            tally.failure(failure, "");
        }
        if self.told.get() < MOST_TOLD {
            self.told.set(self.told.get() + 1);
            println!("{} {}: {}", self.now(), kind.name(), failure.kind());
        }
    }

    /// Counts a failure of the hand-overs themselves.
    pub(super) fn broken(&self, what: &str) {
        let error = std::io::Error::other(what.to_owned());
        self.failed(Kind::Handovers, &Failure::Exchange(error));
    }

    pub(super) fn note(&self, note: Note) {
        *self.notes.borrow_mut().entry(note).or_default() += 1;
    }

    pub(super) fn notes(&self) -> BTreeMap<Note, u64> {
        self.notes.borrow().clone()
    }

    /// Returns the outcome of each kind so far.
    pub(super) fn outcomes(&self) -> Vec<(Kind, Outcome)> {
        let tallies = self.tallies.borrow();
        let outcome = |(kind, tally): (&Kind, &Tally)| {
            let tally = tally.clone();
            (*kind, tally.outcome(self.begun.elapsed()))
        };
        tallies.iter().map(outcome).collect()
    }

    /// Returns the number of finished hand-overs.
    pub(super) fn handovers(&self) -> u32 {
        self.handovers.get()
    }

    pub(super) fn handed_over(&self) {
        self.handovers.set(self.handovers.get() + 1);
    }

    /// Notes how many hand-overs were finished before a WebSocket was opened.
    pub(super) fn socket(&self, number: usize, opened: Option<u32>) {
        self.sockets.borrow_mut()[number] = opened;
    }

    /// Tells whether each WebSocket is open and outlives one more hand-over.
    pub(super) fn are_sockets_ready(&self) -> bool {
        let handovers = self.handovers();
        let is_ready = |opened: &Option<u32>| {
            opened.is_some_and(|opened| handovers - opened < SOCKET_OUTLIVES)
        };
        self.sockets.borrow().iter().all(is_ready)
    }

    /// Begins the end of the load.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits for the end of the load.
    pub(super) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as this value.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Handshakes,
        Self::KeptAlive,
        Self::Parked,
        Self::Http2,
        Self::Downloads,
        Self::SlowDownloads,
        Self::Http2Downloads,
        Self::Uploads,
        Self::Http2Uploads,
        Self::Websockets,
        Self::Handovers,
        Self::Cut,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Handshakes => "handshakes",
            Self::KeptAlive => "keep-alive HTTP/1.1",
            Self::Parked => "parked HTTP/1.1",
            Self::Http2 => "keep-alive HTTP/2",
            Self::Downloads => "downloads",
            Self::SlowDownloads => "slow downloads",
            Self::Http2Downloads => "slow HTTP/2 downloads",
            Self::Uploads => "uploads",
            Self::Http2Uploads => "HTTP/2 uploads",
            Self::Websockets => "WebSocket echoes",
            Self::Handovers => "hand-overs",
            Self::Cut => "WebSockets until the cut",
        }
    }
}

impl Note {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Close => "answers with Connection: close",
            Self::ClosedIdle => "HTTP/1.1 connections closed while idle",
            Self::GoAway => "HTTP/2 connections ended by the server",
            Self::Unsent => "HTTP/2 requests held back by a GOAWAY",
            Self::Undone => "HTTP/2 requests that crossed a GOAWAY, sent again",
            Self::Renewed => "WebSockets renewed by the client",
        }
    }
}

/// Hand-overs that a WebSocket lives through: at the third the server may cut it.
pub(super) const SOCKET_OUTLIVES: u32 = 2;
/// Failures that are told one by one.
const MOST_TOLD: u32 = 40;
