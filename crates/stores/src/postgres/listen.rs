//! Noticing that others wrote: by what they notify of, on a connection of its
//! own; where there is none, by looking often.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use super::connection::Connection;
use super::fault::Step;
use super::pool::Pool;
use crate::backoff::Backoff;

/// Waits for others' writes, by a task that ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) changed: watch::Sender<()>,
    _task: JoinSet<()>,
}

impl Watch {
    pub(super) fn start(pool: &Arc<Pool>) -> Self {
        let (changed, mut task) = (watch::Sender::new(()), JoinSet::new());
        let follow = follow(Arc::clone(pool), changed.clone());
        task.spawn_on(follow, &pool.runtime);
        Self {
            changed,
            _task: task,
        }
    }

    /// Resolves at the next change from now on.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changed.subscribe();
        // The sender lives as long as the store that was asked.
        async move { _ = changes.changed().await }
    }
}

async fn follow(pool: Arc<Pool>, changed: watch::Sender<()>) {
    if pool.dialer.url.pgbouncer {
        return poll_until(pending(), &changed).await;
    }
    let bound = pool.dialer.options.connect;
    let mut delays = RETRY.delays();
    loop {
        let begun = timeout(bound, begin(&pool, changed.clone()));
        if let Ok(Ok(connection)) = poll_until(begun, &changed).await {
            delays.after_success();
            // Changes may have been written before we listened.
            changed.send_replace(());
            until_broken(connection, bound).await;
        }
        poll_until(sleep(delays.after_failure()), &changed).await;
    }
}

/// Says again and again that something may have changed, until this resolves.
async fn poll_until<T>(until: impl Future<Output = T>, changed: &watch::Sender<()>) -> T {
    let mut until = pin!(until);
    loop {
        if let Ok(done) = timeout(POLL, &mut until).await {
            return done;
        }
        changed.send_replace(());
    }
}

/// Connects and begins to listen.
async fn begin(pool: &Pool, changed: watch::Sender<()>) -> Step<Connection> {
    let connection = pool.dialer.connect(move |said| {
        if let AsyncMessage::Notification(_) = said {
            changed.send_replace(());
        }
    });
    let connection = connection.await?;
    connection.run(LISTEN).await?;
    Ok(connection)
}

/// A connection that nobody writes on may be dead without our knowing: it is
/// asked from time to time.
async fn until_broken(connection: Connection, bound: Duration) {
    let ask = async {
        while let Ok(Ok(())) = timeout(bound, connection.run("")).await {
            sleep(PING_INTERVAL).await;
        }
    };
    tokio::select! {
        () = connection.ended() => {}
        () = ask => {}
    }
}

const LISTEN: &str = "LISTEN sekisho";
/// Share of the 100 ms that [`CACHE_TIMEOUT`](sekisho_certs::feed::CACHE_TIMEOUT)
/// adds up.
const POLL: Duration = Duration::from_millis(40);
/// Between two attempts to listen.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
const PING_INTERVAL: Duration = Duration::from_secs(3);
