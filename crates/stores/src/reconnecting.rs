//! Connections that are made again by themselves: one for all callers, and one
//! more of each worker's own.
//!
//! The first belongs to the background runtime. A worker ([`worker`]) has one on
//! its own runtime: question and answer then cross no threads. While that is
//! not up, any other is used.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use sekisho_certs::store::{BoxFuture, Result, StoreError};

use crate::backoff::Backoff;
use crate::fault::unavailable;
use crate::worker;
use sekisho_certs::lock;

/// Connections to one server, each up or being made.
pub(crate) struct Reconnecting<C> {
    server: Arc<Server<C>>,
    runtime: Handle,
    common: OnceLock<Kept<C>>,
    /// Of workers, by their runtimes; `max_own` at most. Workers end together: an id that
    /// Tokio would give again can't be another's.
    own: Mutex<Vec<(Id, Kept<C>)>>,
    max_own: usize,
}

/// A server as logs name it, and how a connection to it is made.
struct Server<C> {
    name: String,
    connect: Box<Connect<C>>,
}

type Connect<C> = dyn Fn() -> BoxFuture<'static, Result<Connected<C>>> + Send + Sync;

/// A new connection, and the future that resolves, with the reason, when it has
/// to be replaced.
pub(crate) struct Connected<C> {
    pub(crate) connection: C,
    pub(crate) ended: BoxFuture<'static, String>,
}

impl<C: Clone + Send + Sync + 'static> Reconnecting<C> {
    /// Connects with the first use. `connect` bounds its own time.
    pub(crate) fn new<F>(
        runtime: &Handle,
        name: String,
        max_own: usize,
        connect: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Connected<C>>> + Send + 'static,
    {
        let connect = Box::new(move || -> BoxFuture<'static, _> { Box::pin(connect()) });
        Self {
            server: Arc::new(Server { name, connect }),
            runtime: runtime.clone(),
            common: OnceLock::new(),
            own: Mutex::default(),
            max_own,
        }
    }

    /// Returns this worker's connection, else any that is up, else waits for
    /// the common one. Connections that do not fit count as not up.
    ///
    /// # Errors
    /// Says why the last attempt to connect failed.
    pub(crate) async fn up(&self, fits: impl Fn(&C) -> bool) -> Result<C> {
        self.up_after(None, fits).await
    }

    /// Does the same for a caller whose connection was lost at this time. An attempt that
    /// failed before says nothing of the next one, which is waited for.
    ///
    /// # Errors
    /// Says why the last attempt to connect failed.
    pub(crate) async fn up_after(
        &self,
        lost: Option<Instant>,
        fits: impl Fn(&C) -> bool,
    ) -> Result<C> {
        if let Some(connection) = self.own(&fits) {
            return Ok(connection);
        }
        let mut state = self.start().0.clone();
        loop {
            let why = match &*state.borrow_and_update() {
                State::Up(connection) if fits(connection) => return Ok(connection.clone()),
                State::Down(why, at) if lost.is_none_or(|lost| *at >= lost) => Some(why.clone()),
                State::Up(_) | State::Down(..) | State::Connecting => None,
            };
            if let Some(connection) = self.of_any_worker(&fits) {
                return Ok(connection);
            }
            if let Some(why) = why {
                return Err(why);
            }
            if state.changed().await.is_err() {
                return Err(unavailable("the background runtime has ended"));
            }
        }
    }

    /// Starts to connect before the first use.
    pub(crate) fn start(&self) -> &Kept<C> {
        self.common.get_or_init(|| self.keep(&self.runtime))
    }

    /// The first call from a worker starts connecting.
    pub(crate) fn own(&self, fits: impl Fn(&C) -> bool) -> Option<C> {
        worker::current(|runtime| {
            let mut own = lock(&self.own);
            if let Some((_, kept)) = own.iter().find(|(id, _)| *id == runtime.id()) {
                return kept.up(fits);
            }
            if own.len() < self.max_own {
                own.push((runtime.id(), self.keep(runtime)));
            }
            None
        })?
    }

    fn of_any_worker(&self, fits: impl Fn(&C) -> bool) -> Option<C> {
        lock(&self.own).iter().find_map(|(_, kept)| kept.up(&fits))
    }

    fn keep(&self, runtime: &Handle) -> Kept<C> {
        let (tell, state) = watch::channel(State::Connecting);
        let mut keeper = JoinSet::new();
        keeper.spawn_on(keep_up(Arc::clone(&self.server), tell), runtime);
        Kept(state, keeper)
    }
}

impl<C> fmt::Debug for Reconnecting<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reconnecting")
            .field(&self.server.name)
            .finish()
    }
}

/// A connection's state, and the task that keeps it up until this is dropped.
pub(crate) struct Kept<C>(
    watch::Receiver<State<C>>,
    #[expect(dead_code, reason = "aborts the task when it is dropped")] JoinSet<()>,
);

impl<C: Clone> Kept<C> {
    fn up(&self, fits: impl Fn(&C) -> bool) -> Option<C> {
        match &*self.0.borrow() {
            State::Up(connection) if fits(connection) => Some(connection.clone()),
            _ => None,
        }
    }
}

enum State<C> {
    /// The first attempt, or the first after a loss, is under way.
    Connecting,
    Up(C),
    /// The last attempt failed at this time; the next one follows by itself.
    Down(StoreError, Instant),
}

async fn keep_up<C>(server: Arc<Server<C>>, state: watch::Sender<State<C>>) {
    let name = &server.name;
    let mut delays = RECONNECT.delays();
    loop {
        match (server.connect)().await {
            Ok(Connected { connection, ended }) => {
                delays.after_success();
                tracing::info!(server = name, "connected to server");
                state.send_replace(State::Up(connection));
                let why = ended.await;
                tracing::warn!(
                    server = name,
                    why,
                    "connection to server lost, reconnecting"
                );
                state.send_replace(State::Connecting);
                sleep(RECONNECT.delays().after_failure()).await;
            }
            Err(error) => {
                if delays.is_at_start() {
                    tracing::warn!(server = name, %error, "no connection to server, trying again");
                }
                state.send_replace(State::Down(error, Instant::now()));
                sleep(delays.after_failure()).await;
            }
        }
    }
}

/// Between two attempts to connect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Attempts to connect in their order: a connection of this number, or none.
    fn scripted(attempts: impl IntoIterator<Item = Option<u32>>) -> Reconnecting<u32> {
        let attempts = Mutex::new(VecDeque::from_iter(attempts));
        let connect = move || {
            let next = attempts.lock().unwrap().pop_front().flatten();
            async move {
                let connection =
                    next.ok_or_else(|| StoreError::Unavailable("too many clients".into()))?;
                let ended = Box::pin(std::future::pending());
                Ok(Connected { connection, ended })
            }
        };
        Reconnecting::new(&Handle::current(), "server".to_owned(), 0, connect)
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_loss_an_older_failure_is_waited_out() {
        let server = scripted([None, Some(2)]);
        let error = server.up(|_| true).await.unwrap_err();
        assert!(error.to_string().contains("too many clients"), "{error}");
        // The second attempt is not made yet: others fail at once.
        server.up(|_| true).await.unwrap_err();
        tokio::time::advance(Duration::from_millis(1)).await;
        let lost = Instant::now();
        assert_eq!(server.up_after(Some(lost), |_| true).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_loss_a_newer_failure_is_the_answer() {
        let server = scripted([None, None, Some(3)]);
        server.up(|_| true).await.unwrap_err();
        tokio::time::advance(Duration::from_millis(1)).await;
        let lost = Instant::now();
        server.up_after(Some(lost), |_| true).await.unwrap_err();
        assert!(lost.elapsed() <= RECONNECT.max);
    }
}
