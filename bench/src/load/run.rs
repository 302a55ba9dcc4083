//! Phases of a run. All tasks run on one thread and share cells without locks.

mod hellos;
mod paced;
mod streams;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use super::client::{Client, is_resumed};
use super::failure::Failure;
use super::names::{Names, Picker};
use super::options::Options;
use super::tally::{Outcome, Tally};
use super::websocket;

pub(crate) struct Run {
    client: Client,
    names: Names,
    picker: RefCell<Picker>,
    path: Option<String>,
    concurrency: usize,
    exchange: Exchange,
    /// Whether the time of a request ends with the first byte of its response.
    first_byte: bool,
    /// Rest before each request on an open connection.
    pause: Duration,
    /// True if the outcome of a schedule has the buckets of all times.
    counts: bool,
}

/// Operation on a connection that stays open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Exchange {
    /// A request for the connection's host.
    Request,
    /// A request for the next host.
    AnyHost,
    /// 64 bytes on a WebSocket, and their echo.
    Echo,
}

impl Exchange {
    fn of(options: &Options) -> Self {
        if options.websocket {
            Self::Echo
        } else if options.any_host {
            Self::AnyHost
        } else {
            Self::Request
        }
    }
}

impl Run {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let names = options.names()?;
        let deadline = Duration::from_secs_f64(options.deadline);
        let picker = Picker::new(options.order, names.len(), options.start, options.seed);
        let client = Client::new(options.target, &options.offer(names.len()), deadline)?;
        let client = if options.http2.is_some() {
            client.http2()
        } else {
            client
        };
        let client = match &options.field {
            Some(field) => client.with_field(field),
            None => client,
        };
        Ok(Self {
            exchange: Exchange::of(options),
            client: client.sources(options.sources),
            picker: RefCell::new(picker),
            path: (options.request != "none").then(|| options.request.clone()),
            concurrency: options.concurrency,
            first_byte: options.first_byte,
            pause: Duration::from_secs_f64(options.pause),
            counts: options.counts,
            names,
        })
    }

    /// Makes connections, one after the other in each task, until the bound is
    /// met.
    pub(crate) async fn handshakes(
        self: &Rc<Self>,
        count: Option<u64>,
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let tally = Rc::new(RefCell::new(Tally::new()?));
        let budget = Rc::new(Budget::new(count, seconds));
        let start = Instant::now();
        all((0..self.concurrency).map(|_| {
            let (run, tally, budget) = (self.clone(), tally.clone(), budget.clone());
            async move {
                let mut buffer = Vec::new();
                while budget.take() {
                    run.visit_next(Duration::ZERO, &tally, &mut buffer).await;
                }
            }
        }))
        .await?;
        Ok(finished(tally)?.outcome(start.elapsed()))
    }

    /// Makes one connection and records it. `late` is how long ago it was due.
    async fn visit_next(&self, late: Duration, tally: &RefCell<Tally>, buffer: &mut Vec<u8>) {
        let host = self.next_name();
        let visit = self.client.visit(&host, self.path.as_deref(), buffer).await;
        let mut tally = tally.borrow_mut();
        match visit {
            Ok(visit) => {
                tally.handshake(late + visit.handshake, visit.resumed);
                tally.operation(late + visit.whole);
            }
            Err(failure) => tally.failure(&failure, &host),
        }
    }

    /// Opens as many connections as `concurrency` says, and sends one request
    /// on each.
    pub(crate) async fn connections(self: &Rc<Self>) -> Result<Connections> {
        let tally = Rc::new(RefCell::new(Tally::new()?));
        let open = Rc::new(RefCell::new(Vec::with_capacity(self.concurrency)));
        let budget = Rc::new(Budget::new(Some(self.concurrency as u64), None));
        all((0..self.concurrency.min(OPENING)).map(|_| {
            let (run, tally, open, budget) =
                (self.clone(), tally.clone(), open.clone(), budget.clone());
            async move {
                while budget.take() {
                    let host = run.next_name();
                    match run.open(&host, &tally).await {
                        Ok(stream) => open.borrow_mut().push(Rc::new(Held::new(host, stream))),
                        Err(failure) => tally.borrow_mut().failure(&failure, &host),
                    }
                }
            }
        }))
        .await?;
        let open = Rc::into_inner(open).context("a task still holds the connections")?;
        Ok(Connections {
            open: open.into_inner(),
            tally: finished(tally)?,
        })
    }

    async fn open(
        &self,
        host: &str,
        tally: &RefCell<Tally>,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let start = Instant::now();
        let mut stream = self.client.open(host).await?;
        let resumed = is_resumed(&stream);
        tally.borrow_mut().handshake(start.elapsed(), resumed);
        let Some(path) = &self.path else {
            return Ok(stream);
        };
        if self.exchange == Exchange::Echo {
            self.client
                .bounded(websocket::open(&mut stream, path, host))
                .await?;
        } else {
            let mut buffer = Vec::new();
            self.client
                .request(&mut stream, path, host, &mut buffer)
                .await?;
        }
        Ok(stream)
    }

    /// Sends requests on open connections until the bound is met.
    pub(crate) async fn requests(
        self: &Rc<Self>,
        connections: &Connections,
        count: Option<u64>,
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let tally = Rc::new(RefCell::new(connections.tally.clone()));
        let budget = Rc::new(Budget::new(count, seconds));
        let start = Instant::now();
        all(connections.open.iter().map(|held| {
            let (run, tally, budget, held) =
                (self.clone(), tally.clone(), budget.clone(), held.clone());
            async move { run.repeat(&held, &tally, &budget).await }
        }))
        .await?;
        Ok(finished(tally)?.outcome(start.elapsed()))
    }

    async fn repeat(&self, held: &Held, tally: &RefCell<Tally>, budget: &Budget) {
        let path = self.path.as_deref().unwrap_or("/");
        let mut buffer = Vec::new();
        // Taken out while it is used: a borrow may not live across an await.
        let Some(mut stream) = held.stream.take() else {
            return;
        };
        while budget.take() {
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
            let start = Instant::now();
            let done = match self.exchange {
                Exchange::Echo => {
                    let echo = self.client.bounded(websocket::echo(&mut stream)).await;
                    echo.map(|()| start.elapsed())
                }
                Exchange::AnyHost => {
                    let host = self.next_name();
                    let request = self.client.request(&mut stream, path, &host, &mut buffer);
                    request.await
                }
                Exchange::Request => {
                    let client = &self.client;
                    let request = client.request(&mut stream, path, &held.host, &mut buffer);
                    request.await
                }
            };
            match done {
                Ok(first) if self.first_byte => tally.borrow_mut().operation(first),
                Ok(_) => tally.borrow_mut().operation(start.elapsed()),
                Err(failure) => {
                    tally.borrow_mut().failure(&failure, &held.host);
                    return;
                }
            }
        }
        held.stream.replace(Some(stream));
    }

    /// Holds the connections for this time, and counts those that the server
    /// ended.
    pub(crate) async fn hold(
        &self,
        connections: &Connections,
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let start = Instant::now();
        sleep(Duration::from_secs_f64(seconds.unwrap_or(0.0))).await;
        let mut tally = connections.tally.clone();
        for held in &connections.open {
            let stream = held.stream.take();
            let Some(mut stream) = stream else { continue };
            if let Ok(ended) = timeout(Duration::ZERO, stream.read(&mut [0])).await {
                let failure = match ended {
                    Ok(_) => Failure::Response("closed while idle"),
                    Err(error) => Failure::Exchange(error),
                };
                tally.failure(&failure, &held.host);
            } else {
                tally.operation(start.elapsed());
            }
            held.stream.replace(Some(stream));
        }
        Ok(tally.outcome(start.elapsed()))
    }

    fn next_name(&self) -> String {
        let index = self.picker.borrow_mut().pick();
        self.names.name(index)
    }
}

pub(crate) struct Connections {
    open: Vec<Rc<Held>>,
    tally: Tally,
}

struct Held {
    host: String,
    stream: RefCell<Option<TlsStream<TcpStream>>>,
}

impl Held {
    fn new(host: String, stream: TlsStream<TcpStream>) -> Self {
        let stream = RefCell::new(Some(stream));
        Self { host, stream }
    }
}

/// Budget of operations that may still be started. Without a bound it is empty.
struct Budget {
    left: Cell<u64>,
    until: Option<Instant>,
}

impl Budget {
    fn new(count: Option<u64>, seconds: Option<f64>) -> Self {
        let unbounded = if seconds.is_some() { u64::MAX } else { 0 };
        Self {
            left: Cell::new(count.unwrap_or(unbounded)),
            until: seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)),
        }
    }

    fn take(&self) -> bool {
        let left = self.left.get();
        if left == 0 || self.until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        self.left.set(left - 1);
        true
    }
}

/// Runs all tasks on this thread and waits for the last.
async fn all<F: Future<Output = ()> + 'static>(tasks: impl Iterator<Item = F>) -> Result<()> {
    let mut set = JoinSet::new();
    for task in tasks {
        set.spawn_local(task);
    }
    while let Some(joined) = set.join_next().await {
        joined?;
    }
    Ok(())
}

fn finished(tally: Rc<RefCell<Tally>>) -> Result<Tally> {
    Rc::into_inner(tally)
        .map(RefCell::into_inner)
        .ok_or_else(|| anyhow!("a task still holds the tally"))
}

/// Concurrent handshakes while many connections are opened: fewer than any
/// listen backlog.
const OPENING: usize = 64;
