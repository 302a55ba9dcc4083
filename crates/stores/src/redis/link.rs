//! One connection that is kept up.
//!
//! A task of the background runtime makes it, watches it and makes it again.
//! Callers of any runtime only hand requests to it and wait for answers. Those
//! of a runtime that serves have one of their own beside it, on that runtime,
//! for as long as that one lasts: a request and its answer then cross no
//! threads. Whenever that is not up, the first one is used.

mod beside;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::beside::Beside;
use super::dial::{Dialer, Dialled, Route, ping};
use super::url::Node;
use sekisho_certs::store::{Result, StoreError};

/// A connection to one server, or to none for the moment.
pub(super) struct Link {
    state: watch::Receiver<State>,
    beside: Beside,
    keeper: JoinHandle<()>,
}

impl Link {
    /// Keeps a connection up until the link is dropped; `dial` makes one.
    pub(super) fn start<D, F>(runtime: &Handle, shown: String, dial: D) -> Self
    where
        D: Fn() -> F + Send + 'static,
        F: Future<Output = std::result::Result<Dialled, String>> + Send + 'static,
    {
        let (tell, state) = watch::channel(State::Connecting);
        Self {
            beside: Beside::new(shown.clone(), state.clone()),
            state,
            keeper: runtime.spawn(keep(shown, dial, tell)),
        }
    }

    /// The same to one address.
    pub(super) fn to_node(runtime: &Handle, node: &Node, dialer: &Dialer) -> Self {
        let shown = node.to_string();
        let (node, dialer) = (Arc::new(node.clone()), Arc::new(dialer.clone()));
        Self::start(runtime, shown, move || {
            let (node, dialer) = (Arc::clone(&node), Arc::clone(&dialer));
            async move { dialer.dial(&node).await }
        })
    }

    /// Sends commands in one write; gives one answer for each. If the
    /// connection breaks off meanwhile they are sent once more: they only
    /// read, or do nothing more the second time.
    pub(super) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        if let Some(mut near) = self.beside.connection() {
            let sent = near.send_packed_commands(commands, 0, commands.len());
            if let Ok(answers) = sent.await {
                return Ok(answers);
            }
        }
        let mut state = self.state.clone();
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
    pub(super) async fn reach(&self) -> Result<()> {
        up(&mut self.state.clone()).await.map(|_| ())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&*self.state.borrow()).finish()
    }
}

#[derive(Clone)]
enum State {
    /// The first attempt, or the first after a loss, is under way.
    Connecting,
    Up(MultiplexedConnection, Arc<Route>),
    /// The last attempt failed; the next one follows by itself.
    Down(Arc<str>),
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("Connecting"),
            Self::Up(..) => f.write_str("Up"),
            Self::Down(why) => write!(f, "Down({why})"),
        }
    }
}

/// The connection. The wait is as long as an attempt to connect.
async fn up(state: &mut watch::Receiver<State>) -> Result<MultiplexedConnection> {
    loop {
        match &*state.borrow_and_update() {
            State::Up(connection, _) => return Ok(connection.clone()),
            State::Down(why) => return Err(StoreError::Unavailable(Arc::clone(why))),
            State::Connecting => {}
        }
        if state.changed().await.is_err() {
            return Err(unavailable("the background runtime has ended".into()));
        }
    }
}

async fn keep<D, F>(shown: String, dial: D, state: watch::Sender<State>)
where
    D: Fn() -> F,
    F: Future<Output = std::result::Result<Dialled, String>>,
{
    let mut rest = SHORTEST_REST;
    let mut is_told = false;
    loop {
        let dialled = match timeout(CONNECT, dial()).await {
            Ok(dialled) => dialled,
            Err(_) => Err(format!("{shown} did not answer within {CONNECT:?}")),
        };
        let why = match dialled {
            Ok(dialled) => {
                tracing::info!(server = shown, "connected to Redis");
                let (connection, route) = (&dialled.connection, &dialled.route);
                state.send_replace(State::Up(connection.clone(), Arc::clone(route)));
                let why = watch_over(dialled).await;
                tracing::warn!(server = shown, why, "the connection to Redis is lost");
                state.send_replace(State::Connecting);
                (rest, is_told) = (SHORTEST_REST, false);
                sleep(rest).await;
                continue;
            }
            Err(why) => why,
        };
        if !is_told {
            tracing::warn!(why, "no connection to Redis, trying again");
            is_told = true;
        }
        state.send_replace(State::Down(why.into()));
        sleep(rest).await;
        rest = (rest * 2).min(LONGEST_REST);
    }
}

/// Drives the connection; gives the reason of its end.
async fn watch_over(dialled: Dialled) -> String {
    let Dialled {
        connection,
        mut driver,
        ..
    } = dialled;
    let watch = pin!(async {
        loop {
            sleep(PING_EVERY).await;
            // Behind whatever was asked before: it waits as long as that does.
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
const SHORTEST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
