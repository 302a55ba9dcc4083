//! A connection to one Redis server that is made again by itself, and one more
//! of each worker's own.
//!
//! The first connection belongs to the background runtime. Callers of any
//! runtime hand requests to it and wait for answers. A worker ([`near`]) has one
//! of its own, on its own runtime: request and answer then cross no threads.
//! While that is not up, the first one is used.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use sekisho_certs::store::{BoxFuture, Result, StoreError};

use super::dial::{Dialer, Dialled, ping};
use super::url::Node;
use crate::backoff::Backoff;
use crate::near;

/// Connections to one server, each up or for the moment not.
pub(crate) struct ReconnectingConnection {
    server: Arc<Server>,
    shared: Kept,
    own: Mutex<Vec<(near::Id, Kept)>>,
}

/// The server, and how a connection to it is made.
struct Server {
    name: String,
    dial: Box<Dial>,
}

type Dial = dyn Fn() -> BoxFuture<'static, std::result::Result<Dialled, String>> + Send + Sync;

impl ReconnectingConnection {
    /// Keeps connections up until this is dropped; `dial` makes one.
    pub(super) fn start<D, F>(runtime: &Handle, name: String, dial: D) -> Self
    where
        D: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<Dialled, String>> + Send + 'static,
    {
        let dial = Box::new(move || -> BoxFuture<'static, _> { Box::pin(dial()) });
        let server = Arc::new(Server { name, dial });
        Self {
            shared: Kept::start(runtime, &server),
            own: Mutex::default(),
            server,
        }
    }

    /// Keeps connections to one address up.
    pub(super) fn to_node(runtime: &Handle, node: &Node, dialer: &Dialer) -> Self {
        let name = node.to_string();
        let (node, dialer) = (Arc::new(node.clone()), Arc::new(dialer.clone()));
        Self::start(runtime, name, move || {
            let (node, dialer) = (Arc::clone(&node), Arc::clone(&dialer));
            async move { dialer.dial(&node).await }
        })
    }

    /// Sends commands in one write; gives one answer for each. If the
    /// connection breaks off meanwhile they are sent once more: they only
    /// read, or do nothing more the second time.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        if let Some(mut own) = self.own() {
            let sent = own.send_packed_commands(commands, 0, commands.len());
            if let Ok(answers) = sent.await {
                return Ok(answers);
            }
        }
        let mut state = self.shared.state.clone();
        let mut again = true;
        loop {
            let mut connection = up(&mut state).await?;
            let sent = connection.send_packed_commands(commands, 0, commands.len());
            match sent.await {
                Ok(answers) => return Ok(answers),
                Err(error) if !again => return Err(unavailable(error.to_string())),
                // The keeper learns of it at the same moment.
                Err(_) => _ = state.changed().await,
            }
            again = false;
        }
    }

    /// Whether the last attempt to connect succeeded; waits for the first.
    pub(crate) async fn reach(&self) -> Result<()> {
        up(&mut self.shared.state.clone()).await.map(|_| ())
    }

    /// Returns this worker's own connection if it is up. The first call from a
    /// worker starts connecting.
    fn own(&self) -> Option<MultiplexedConnection> {
        near::here(|here| {
            let mut own = self.lock();
            let known = own.iter().position(|(id, _)| *id == here.id);
            let at = known.unwrap_or_else(|| {
                own.push((here.id, Kept::start(&here.runtime, &self.server)));
                own.len() - 1
            });
            match &*own[at].1.state.borrow() {
                State::Up(connection) => Some(connection.clone()),
                State::Connecting | State::Down(_) => None,
            }
        })?
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Vec<(near::Id, Kept)>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ReconnectingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReconnectingConnection")
            .field(&*self.shared.state.borrow())
            .finish()
    }
}

/// A connection, and the task that keeps it up for as long as this lives.
struct Kept {
    state: watch::Receiver<State>,
    keeper: JoinHandle<()>,
}

impl Kept {
    fn start(runtime: &Handle, server: &Arc<Server>) -> Self {
        let (tell, state) = watch::channel(State::Connecting);
        Self {
            state,
            keeper: runtime.spawn(keep_up(Arc::clone(server), tell)),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

enum State {
    /// The first attempt, or the first after a loss, is under way.
    Connecting,
    Up(MultiplexedConnection),
    /// The last attempt failed; the next one follows by itself.
    Down(Arc<str>),
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("Connecting"),
            Self::Up(_) => f.write_str("Up"),
            Self::Down(why) => write!(f, "Down({why})"),
        }
    }
}

/// Waits for the connection, at most as long as an attempt to connect takes.
async fn up(state: &mut watch::Receiver<State>) -> Result<MultiplexedConnection> {
    loop {
        match &*state.borrow_and_update() {
            State::Up(connection) => return Ok(connection.clone()),
            State::Down(why) => return Err(StoreError::Unavailable(Arc::clone(why))),
            State::Connecting => {}
        }
        if state.changed().await.is_err() {
            return Err(unavailable("the background runtime has ended".into()));
        }
    }
}

async fn keep_up(server: Arc<Server>, state: watch::Sender<State>) {
    let name = &server.name;
    let mut delays = RECONNECT.delays();
    loop {
        let dialled = timeout(CONNECT, (server.dial)()).await;
        match dialled.unwrap_or_else(|_| Err(format!("{name} did not answer within {CONNECT:?}"))) {
            Ok(dialled) => {
                tracing::info!(server = name, "connected to Redis");
                state.send_replace(State::Up(dialled.connection.clone()));
                let why = watch_over(dialled).await;
                tracing::warn!(server = name, why, "connection to Redis lost, reconnecting");
                state.send_replace(State::Connecting);
                delays.after_success();
                sleep(RECONNECT.delays().after_failure()).await;
            }
            Err(why) => {
                if delays.is_at_start() {
                    tracing::warn!(server = name, why, "no connection to Redis, trying again");
                }
                state.send_replace(State::Down(why.into()));
                sleep(delays.after_failure()).await;
            }
        }
    }
}

/// Drives the connection; gives the reason of its end.
async fn watch_over(dialled: Dialled) -> String {
    let Dialled {
        connection,
        mut driver,
    } = dialled;
    let watch = pin!(async {
        loop {
            sleep(PING_EVERY).await;
            // Behind what was asked before: it waits as long as that does.
            if timeout(ANSWER, ping(&connection)).await.is_err() {
                return format!("no answer within {ANSWER:?}");
            }
        }
    });
    tokio::select! {
        () = &mut driver => "it was closed or broke off".to_owned(),
        why = watch => why,
    }
}

fn unavailable(why: String) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// Name, TCP, TLS and password in all; below the deadline of a call, so that
/// calls learn why they fail.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// The longest a server may take for what was asked before a ping, and for it.
const ANSWER: Duration = Duration::from_secs(1);
/// A peer that is gone without a word is noticed within this and [`ANSWER`].
const PING_EVERY: Duration = Duration::from_secs(1);
/// Between two attempts to connect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
