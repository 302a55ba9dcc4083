//! A connection to Redis that is made again by itself, and one more of each
//! worker's own.
//!
//! The first connection belongs to the background runtime. Callers of any
//! runtime hand requests to it and wait for replies. A worker ([`near`]) has one
//! of its own, on its own runtime: request and reply then cross no threads.
//! While that is not up, the first one is used.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use sekisho_certs::store::{BoxFuture, Result, StoreError};

use crate::backoff::Backoff;
use crate::near;

/// Connections to one server or Cluster, each up or for the moment not.
pub(crate) struct ReconnectingConnection<C = MultiplexedConnection> {
    server: Arc<Server<C>>,
    shared: Kept<C>,
    own: Mutex<Vec<(near::Id, Kept<C>)>>,
}

/// The name of a server, and how a connection to it is made.
struct Server<C> {
    name: String,
    dial: Box<Dial<C>>,
}

type Dial<C> =
    dyn Fn() -> BoxFuture<'static, std::result::Result<Dialled<C>, String>> + Send + Sync;

/// A new connection, and the future that reads and writes for it: no request is
/// answered unless that is polled. Its result is the reason why it ended.
pub(super) struct Dialled<C = MultiplexedConnection> {
    pub(super) connection: C,
    pub(super) driver: Pin<Box<dyn Future<Output = String> + Send>>,
}

impl<C: Clone + Send + Sync + 'static> ReconnectingConnection<C> {
    /// Keeps connections up until this is dropped; `dial` makes one.
    pub(super) fn start<D, F>(runtime: &Handle, name: String, dial: D) -> Self
    where
        D: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<Dialled<C>, String>> + Send + 'static,
    {
        let dial = Box::new(move || -> BoxFuture<'static, _> { Box::pin(dial()) });
        let server = Arc::new(Server { name, dial });
        Self {
            shared: Kept::start(runtime, &server),
            own: Mutex::default(),
            server,
        }
    }

    /// Returns this worker's connection if it is up, else the first one. Waits
    /// for the first attempt to make that.
    pub(crate) async fn connect(&self) -> Result<C> {
        match self.own() {
            Some(own) => Ok(own),
            None => up(&mut self.shared.state.clone()).await,
        }
    }

    /// Returns this worker's own connection if it is up. The first call from a
    /// worker starts connecting.
    fn own(&self) -> Option<C> {
        near::here(|here| {
            // No code panics while it holds the lock.
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            let known = own.iter().position(|(id, _)| *id == here.id);
            let at = known.unwrap_or_else(|| {
                own.push((here.id, Kept::start(&here.runtime, &self.server)));
                own.len() - 1
            });
            own[at].1.state.borrow().as_ref()?.as_ref().ok().cloned()
        })?
    }
}

impl ReconnectingConnection {
    /// Sends commands in one write; gives one reply for each. If the
    /// connection breaks off meanwhile they are sent once more: they only
    /// read, or do nothing more the second time.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        if let Some(mut own) = self.own() {
            let sent = own.send_packed_commands(commands, 0, commands.len());
            if let Ok(replies) = sent.await {
                return Ok(replies);
            }
        }
        let mut state = self.shared.state.clone();
        let mut again = true;
        loop {
            let mut connection = up(&mut state).await?;
            let sent = connection.send_packed_commands(commands, 0, commands.len());
            match sent.await {
                Ok(replies) => return Ok(replies),
                Err(error) if !again => return Err(unavailable(error)),
                // The task that keeps the connection learns of it at the same
                // moment.
                Err(_) => _ = state.changed().await,
            }
            again = false;
        }
    }
}

impl<C> fmt::Debug for ReconnectingConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReconnectingConnection")
            .field(&self.server.name)
            .finish()
    }
}

/// A connection, and the task that keeps it up for as long as this lives.
struct Kept<C> {
    state: watch::Receiver<State<C>>,
    keeper: JoinHandle<()>,
}

/// None while the first attempt, or the first after a loss, is under way. After
/// a failure the next attempt follows by itself.
type State<C> = Option<Result<C>>;

impl<C: Clone + Send + Sync + 'static> Kept<C> {
    fn start(runtime: &Handle, server: &Arc<Server<C>>) -> Self {
        let (tell, state) = watch::channel(None);
        Self {
            state,
            keeper: runtime.spawn(keep_up(Arc::clone(server), tell)),
        }
    }
}

impl<C> Drop for Kept<C> {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Waits for the connection, at most as long as an attempt to connect takes.
async fn up<C: Clone>(state: &mut watch::Receiver<State<C>>) -> Result<C> {
    let state = state.wait_for(Option::is_some).await;
    let state = state.map_err(|_| unavailable("the background runtime has ended"))?;
    state.clone().expect("the state was waited for")
}

async fn keep_up<C: Clone>(server: Arc<Server<C>>, state: watch::Sender<State<C>>) {
    let name = &server.name;
    let mut delays = RECONNECT.delays();
    loop {
        let dialled = timeout(CONNECT, (server.dial)()).await;
        match dialled.unwrap_or_else(|_| Err(format!("{name} did not answer within {CONNECT:?}"))) {
            Ok(Dialled { connection, driver }) => {
                tracing::info!(server = name, "connected to Redis");
                state.send_replace(Some(Ok(connection)));
                let why = driver.await;
                tracing::warn!(server = name, why, "connection to Redis lost, reconnecting");
                state.send_replace(None);
                delays.after_success();
                sleep(RECONNECT.delays().after_failure()).await;
            }
            Err(why) => {
                if delays.is_at_start() {
                    tracing::warn!(server = name, why, "no connection to Redis, trying again");
                }
                state.send_replace(Some(Err(unavailable(why))));
                sleep(delays.after_failure()).await;
            }
        }
    }
}

pub(super) fn unavailable(why: impl fmt::Display) -> StoreError {
    StoreError::Unavailable(why.to_string().into())
}

/// Name, TCP, TLS and password in all; below the deadline of a call, so that
/// calls learn why they fail.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// Between two attempts to connect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
