//! Load of all kinds at constant rates: an operation begins when it is due, however long
//! others take.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use sekisho_bench::load::Failure;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::content::Content;
use super::field::{Field, Kind};
use super::http1::Reading;
use super::http2::Multiplexed;
use super::kept::Pool;
use super::setting::{APP, FILES, LARGE, MEDIUM, PAGE, Setting};
use super::sockets::hold;
use super::transfers::{SLOWLY, download, upload, visit};

/// Operations per second, and WebSockets.
pub(super) struct Rates {
    handshakes: f64,
    kept: f64,
    parked: f64,
    http2: f64,
    downloads: f64,
    slow: f64,
    uploads: f64,
    sockets: usize,
}

/// Load until it is stopped.
pub(super) struct Load {
    field: Rc<Field>,
    running: JoinSet<()>,
}

impl Rates {
    pub(super) const FULL: Self = Self {
        handshakes: 100.0,
        kept: 200.0,
        parked: 5.0,
        http2: 200.0,
        downloads: 2.0,
        slow: 0.5,
        uploads: 2.0,
        sockets: SOCKETS,
    };

    pub(super) const QUICK: Self = Self {
        handshakes: 25.0,
        kept: 40.0,
        parked: 5.0,
        http2: 40.0,
        downloads: 1.0,
        slow: 0.25,
        uploads: 1.0,
        sockets: SOCKETS,
    };
}

impl Load {
    /// Begins all kinds, and waits until all WebSockets are open.
    pub(super) async fn start(field: &Rc<Field>, setting: &Setting, rates: &Rates) -> Result<Self> {
        let mut load = Self {
            field: field.clone(),
            running: JoinSet::new(),
        };
        load.requests(setting, rates)?;
        load.transfers(setting, rates)?;
        for number in 0..rates.sockets {
            let client = Rc::new(setting.client(SOCKETS_NET)?);
            load.running
                .spawn_local(hold(field.clone(), client, number));
        }
        Ok(load)
    }

    /// Lets no further operation begin, and waits for those under way.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.field.stop();
        while let Some(ended) = self.running.join_next().await {
            ended?;
        }
        Ok(())
    }

    fn requests(&mut self, setting: &Setting, rates: &Rates) -> Result<()> {
        let (field, client) = (self.field.clone(), Rc::new(setting.client(VISITS_NET)?));
        self.at_rate(Kind::Handshakes, rates.handshakes, move || {
            let (field, client) = (field.clone(), client.clone());
            async move { visit(&field, &client).await }
        });
        for (kind, rate, most) in [
            (Kind::KeptAlive, rates.kept, KEPT),
            (Kind::Parked, rates.parked, PARKED),
        ] {
            let pool = Pool::new(&self.field, setting.client(KEPT_NET)?, most);
            let pool = Rc::new(pool);
            self.at_rate(kind, rate, move || {
                let pool = pool.clone();
                async move { pool.request().await }
            });
        }
        let connections = self.multiplexed(setting, Kind::Http2, FILES, HTTP2)?;
        self.at_rate(Kind::Http2, rates.http2, move || {
            let connections = connections.clone();
            async move {
                let page = PAGE.as_bytes();
                connections.request("/", page, Reading::FAST).await
            }
        });
        Ok(())
    }

    fn transfers(&mut self, setting: &Setting, rates: &Rates) -> Result<()> {
        let content = &setting.content;
        for (kind, rate, path, reading) in [
            (Kind::Downloads, rates.downloads, MEDIUM, Reading::FAST),
            (Kind::SlowDownloads, rates.slow, LARGE, SLOWLY),
        ] {
            let (content, client) = (content.clone(), Rc::new(setting.client(TRANSFERS_NET)?));
            self.at_rate(kind, rate, move || {
                let (content, client) = (content.clone(), client.clone());
                async move { download(&client, path, of(&content, path), reading).await }
            });
        }
        let (upload_client, bytes) = (Rc::new(setting.client(TRANSFERS_NET)?), content.clone());
        self.at_rate(Kind::Uploads, rates.uploads, move || {
            let (content, client) = (bytes.clone(), upload_client.clone());
            async move { upload(&client, &content).await }
        });
        let slow = self.multiplexed(setting, Kind::Http2Downloads, FILES, 1)?;
        let bytes = content.clone();
        self.at_rate(Kind::Http2Downloads, rates.slow, move || {
            let (connections, content) = (slow.clone(), bytes.clone());
            async move { connections.request(LARGE, content.large(), SLOWLY).await }
        });
        let uploads = self.multiplexed(setting, Kind::Http2Uploads, APP, 1)?;
        let bytes = content.clone();
        self.at_rate(Kind::Http2Uploads, rates.uploads, move || {
            let (connections, content) = (uploads.clone(), bytes.clone());
            async move { connections.upload(&content).await }
        });
        Ok(())
    }

    fn multiplexed(
        &self,
        setting: &Setting,
        kind: Kind,
        host: &'static str,
        connections: usize,
    ) -> Result<Rc<Multiplexed>> {
        let client = setting.client(HTTP2_NET)?;
        let connections = Multiplexed::new(&self.field, kind, client, host, connections);
        Ok(Rc::new(connections))
    }

    fn at_rate<F: Future<Output = Result<(), Failure>> + 'static>(
        &mut self,
        kind: Kind,
        rate: f64,
        operation: impl Fn() -> F + 'static,
    ) {
        let field = self.field.clone();
        self.running.spawn_local(async move {
            let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut flying = JoinSet::new();
            loop {
                let due = tokio::select! {
                    due = ticks.tick() => due,
                    Some(_) = flying.join_next() => continue,
                    () = field.stopped() => break,
                };
                if flying.len() >= MOST_FLYING {
                    field.failed(kind, &Failure::NotBegun);
                    continue;
                }
                let (field, operation) = (field.clone(), operation());
                flying.spawn_local(async move {
                    let result = timeout(DEADLINE, operation).await;
                    field.record(kind, due, result.unwrap_or(Err(Failure::Deadline)));
                });
            }
            flying.join_all().await;
        });
    }
}

/// Returns the bytes of a file.
fn of<'a>(content: &'a Content, path: &str) -> &'a [u8] {
    match path {
        LARGE => content.large(),
        _ => content.medium(),
    }
}

/// Makes a client whose deadline bounds a connect and an echo.
pub(super) const CLIENT_DEADLINE: Duration = Duration::from_secs(20);
pub(super) const SOCKETS: usize = 10;
/// HTTP/1.1 connections in use.
const KEPT: usize = 20;
/// Each is idle for four seconds between two requests.
const PARKED: usize = 20;
/// HTTP/2 connections.
const HTTP2: usize = 4;
/// Longest operation.
const DEADLINE: Duration = Duration::from_secs(60);
/// Operations of a kind under way at once.
const MOST_FLYING: usize = 1_000;
/// Second numbers of source addresses.
const VISITS_NET: u8 = 71;
const KEPT_NET: u8 = 72;
const HTTP2_NET: u8 = 73;
const TRANSFERS_NET: u8 = 74;
pub(super) const SOCKETS_NET: u8 = 75;
