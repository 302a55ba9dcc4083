//! Connections to one Redis server, one for the process and one for each worker
//! ([`Reconnecting`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::target::Target;
use super::url::RedisUrl;
use crate::fault::unavailable;
use crate::reconnecting::{Connected, Reconnecting};
use sekisho_certs::store::Result;

/// Connections to one server, each up or being made.
#[derive(Debug)]
pub(crate) struct RedisConnection(Reconnecting<Link>);

/// A connection, and whether a request on it has failed.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    pub(super) failed: Arc<AtomicBool>,
}

/// A new connection. `ended` reads and writes for it: no request is answered unless that
/// is polled.
pub(super) type Dialled = Connected<Link>;

impl RedisConnection {
    /// Keeps connections up to the one server that a URL names, until this is
    /// dropped; none for a Cluster. Does not wait for the first.
    pub(crate) fn open(
        url: &RedisUrl,
        runtime: &Handle,
    ) -> std::result::Result<Option<Self>, String> {
        let Some(target) = Target::of(url)? else {
            return Ok(None);
        };
        let (name, target) = (target.name(), Arc::new(target));
        let connect = move || {
            let target = Arc::clone(&target);
            async move { target.dial().await }
        };
        Ok(Some(Self(keep_up(runtime, name, connect))))
    }

    /// Sends commands in one write; gives one reply for each. If the
    /// connection breaks off meanwhile they are sent again: they only read, or
    /// do nothing more the second time.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let mut attempts = 1;
        loop {
            let mut link = self.0.up(Link::is_whole).await?;
            let sent = link
                .connection
                .send_packed_commands(commands, 0, commands.len());
            match sent.await {
                Ok(replies) => return Ok(replies),
                Err(error) if attempts == MAX_ATTEMPTS => return Err(unavailable(error)),
                // The task that keeps the connection learns of it as well.
                Err(_) => link.failed.store(true, Ordering::Relaxed),
            }
            attempts += 1;
        }
    }

    /// Tells whether the last attempt to connect succeeded; waits for the first.
    pub(crate) async fn reach(&self) -> Result<()> {
        self.0.up(Link::is_whole).await.map(|_| ())
    }
}

impl Link {
    fn is_whole(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }
}

/// Keeps connections up that `dial` makes, within [`CONNECT`] each.
pub(super) fn keep_up<C, F>(
    runtime: &Handle,
    name: String,
    dial: impl Fn() -> F + Send + Sync + 'static,
) -> Reconnecting<C>
where
    C: Clone + Send + Sync + 'static,
    F: Future<Output = std::result::Result<Connected<C>, String>> + Send + 'static,
{
    let named = name.clone();
    let connect = move || {
        let (dialled, name) = (timeout(CONNECT, dial()), named.clone());
        async move {
            let late = |_| Err(format!("{name} did not answer within {CONNECT:?}"));
            dialled.await.unwrap_or_else(late).map_err(unavailable)
        }
    };
    let connections = Reconnecting::new(runtime, name, usize::MAX, connect);
    connections.start();
    connections
}

/// Name, TCP, TLS and password in all; below the deadline of a call, so that
/// calls learn why they fail.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// On the worker's own connection, on the common one, and on its successor.
const MAX_ATTEMPTS: usize = 3;
