//! Noticing that others wrote: by what they notify of, on a connection of its
//! own; where there is none, by looking often.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::fault::{Fault, Step};
use super::pool::{Pool, drive};

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
    if pool.url.pgbouncer {
        return look(&changed).await;
    }
    loop {
        tokio::select! {
            biased;
            listening = begin(&pool, &changed) => if let Ok(listening) = listening {
                // What was written before we listened.
                changed.send_replace(());
                listening.until_broken(pool.options.connect).await;
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

/// A connection on which the server notifies us.
struct Listening {
    client: Client,
    driver: tokio::task::JoinHandle<()>,
}

async fn begin(pool: &Pool, changed: &Arc<watch::Sender<()>>) -> Step<Listening> {
    let bound = pool.options.connect;
    let begin = async {
        let (client, driver) = pool.connect().await?;
        let changed = Arc::clone(changed);
        let driver = pool.runtime.spawn(drive(driver, move |said| {
            if let AsyncMessage::Notification(_) = said {
                changed.send_replace(());
            }
        }));
        let listening = Listening { client, driver };
        listening.client.batch_execute(LISTEN).await?;
        Ok(listening)
    };
    let begun = timeout(bound, begin).await;
    begun.unwrap_or_else(|_| Err(Fault::Away(format!("no connection within {bound:?}"))))
}

impl Listening {
    /// A connection that nobody writes on may be dead without our knowing: it
    /// is asked from time to time.
    async fn until_broken(mut self, bound: Duration) {
        let (client, driver) = (&self.client, &mut self.driver);
        let ask = async {
            loop {
                sleep(PING).await;
                if !matches!(timeout(bound, client.batch_execute("")).await, Ok(Ok(()))) {
                    break;
                }
            }
        };
        tokio::select! {
            _ = driver => {}
            () = ask => {}
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.driver.abort();
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
