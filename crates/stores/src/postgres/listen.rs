//! Noticing that others wrote: by what they notify of, on a connection of its
//! own; where there is none, by looking often.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use super::connection::Connection;
use super::fault::Step;
use super::pool::Pool;

/// The task that waits for others' writes. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    changed: Arc<watch::Sender<()>>,
    task: AbortHandle,
}

impl Watch {
    pub(super) fn start(pool: &Arc<Pool>) -> Self {
        let changed = Arc::new(watch::Sender::new(()));
        let follow = follow(Arc::clone(pool), Arc::clone(&changed));
        let task = pool.runtime.spawn(follow).abort_handle();
        Self { changed, task }
    }

    /// Resolves at the next change from now on.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changed.subscribe();
        async move {
            // The sender lives as long as the store that was asked.
            let _ = changes.changed().await;
        }
    }

    /// Spares the store's own writes the way over the server.
    pub(super) fn notify(&self) -> Arc<watch::Sender<()>> {
        Arc::clone(&self.changed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(pool: Arc<Pool>, changed: Arc<watch::Sender<()>>) {
    if pool.dialer.url.pgbouncer {
        return look(&changed).await;
    }
    let bound = pool.dialer.options.connect;
    loop {
        tokio::select! {
            biased;
            begun = timeout(bound, begin(&pool, &changed)) => if let Ok(Ok(connection)) = begun {
                // What was written before we listened.
                changed.send_replace(());
                until_broken(connection, bound).await;
            },
            () = look(&changed) => {}
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            () = look(&changed) => {}
        }
    }
}

/// Says again and again that something may have changed.
async fn look(changed: &watch::Sender<()>) {
    loop {
        sleep(EVERY).await;
        changed.send_replace(());
    }
}

/// Connects and begins to listen.
async fn begin(pool: &Pool, changed: &Arc<watch::Sender<()>>) -> Step<Connection> {
    let changed = Arc::clone(changed);
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
            sleep(PING).await;
        }
    };
    tokio::select! {
        () = connection.ended() => {}
        () = ask => {}
    }
}

const LISTEN: &str = "LISTEN sekisho";
/// The end of a write transaction: listeners hear of it when it is committed.
pub(super) const NOTIFY_AND_COMMIT: &str = "NOTIFY sekisho; COMMIT";
/// Servers promise to have a change within 100 ms; the rest of it is for
/// reading what changed.
const EVERY: Duration = Duration::from_millis(40);
const RETRY: Duration = Duration::from_millis(500);
const PING: Duration = Duration::from_secs(3);
