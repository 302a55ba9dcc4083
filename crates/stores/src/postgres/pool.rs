//! The connections of one process: some for one call at a time, the others for
//! lookups, which are pipelined on shared ones.
//!
//! Each call is a task of its own: none depends on who polls it, and one whose
//! caller went away ends in order; a read of the log ends at once. A lookup that
//! nobody polled would hold up the answers behind its own. Lookups are tasks of
//! the runtime that serves their client, where they have connections of their own; all else
//! is of the runtime that the pool was made with.

use std::fmt;
use std::pin::{Pin, pin};
use std::result;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::Options;
use super::connection::{Connection, Dialer};
use super::fault::{Fault, Step};
use super::find;
use super::schema::{self, Header};
use super::url::Url;
use crate::reconnecting::{Connected, Reconnecting};
use crate::worker;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::lock;
use sekisho_certs::store::{Answer, CatalogId, Result, StoreError};

/// The connections and what it takes to make one.
pub(super) struct Pool {
    pub(super) dialer: Arc<Dialer>,
    pub(super) runtime: Handle,
    /// Of calls that have a connection or wait for one.
    calls: Arc<Semaphore>,
    /// Of calls that have a connection of their own.
    exclusive: Semaphore,
    /// Of reads of the change log, which have one more: no change waits for transactions
    /// that wait for each other.
    log: Semaphore,
    idle: Mutex<Vec<Arc<Connection>>>,
    /// Connection for lookups; none where the pool is one connection.
    pub(super) lookups: Option<Reconnecting<Arc<Connection>>>,
    /// Connection for lookups that hang on another one, while there are any: one more than
    /// the pool has.
    pub(super) spare: tokio::sync::Mutex<Weak<Connection>>,
}

impl Pool {
    pub(super) fn new(url: &Url, options: &Options, runtime: &Handle) -> Result<Self> {
        let dialer = Arc::new(Dialer::new(url, options)?);
        let exclusive = url.pool.div_ceil(EXCLUSIVE_SHARE);
        let for_lookups = Arc::clone(&dialer);
        // The connection for lookups is common to all.
        let own = (url.pool - exclusive).checked_sub(1);
        let dial = move || dial(Arc::clone(&for_lookups));
        let lookups = own.map(|own| Reconnecting::new(runtime, url.to_string(), own, dial));
        Ok(Self::with(dialer, runtime, exclusive, lookups))
    }

    /// Makes a pool whose connections have one call at a time, to a database of any kind.
    pub(super) fn of_any(url: &Url, options: &Options, runtime: &Handle) -> Result<Self> {
        let mut dialer = Dialer::new(url, options)?;
        dialer.is_foreign = true;
        Ok(Self::with(Arc::new(dialer), runtime, url.pool, None))
    }

    fn with(
        dialer: Arc<Dialer>,
        runtime: &Handle,
        exclusive: usize,
        lookups: Option<Reconnecting<Arc<Connection>>>,
    ) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(dialer.url.pool + MAX_WAITING)),
            dialer,
            runtime: runtime.clone(),
            exclusive: Semaphore::new(exclusive),
            log: Semaphore::new(1),
            idle: Mutex::default(),
            lookups,
            spare: tokio::sync::Mutex::default(),
        }
    }

    /// Runs a call on a connection of its own, all of it within this bound.
    pub(super) async fn call<T, F>(
        self: &Arc<Self>,
        bound: Duration,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let call = async move { pool.alone(&pool.exclusive, work).await };
        self.bounded(&self.runtime, bound, call).await
    }

    /// Reads the change log, all of it within the bound of reads. No other call holds it up
    /// but reads of the log. The read ends with its caller: a read that
    /// hangs holds up the next no longer than its caller waits.
    pub(super) async fn read_log<T, F>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let call = async move { pool.alone(&pool.log, work).await };
        let bound = self.dialer.options.read;
        let mut task = JoinSet::new();
        task.spawn_on(async move { timeout(bound, call).await }, &self.runtime);
        let ended = task.join_next().await.expect("there is a task");
        self.result(ended, bound)
    }

    /// Finds what answers for a name.
    pub(super) async fn find(self: &Arc<Self>, name: HostName) -> Result<Answer<SealedBytes>> {
        let pool = Arc::clone(self);
        // Connections of their own for calls are everybody's: their drivers stay off the
        // workers, each of which may be busy or end.
        let worker = self
            .lookups
            .as_ref()
            .and_then(|_| worker::current(Handle::clone));
        let runtime = worker.as_ref().unwrap_or(&self.runtime);
        let look_up = async move {
            match &pool.lookups {
                Some(lookups) => pool.pipelined(lookups, &name).await,
                None => {
                    let find = async move |on: Arc<Connection>| find::find(&on, &name).await;
                    pool.alone(&pool.exclusive, find).await
                }
            }
        };
        self.bounded(runtime, self.dialer.options.read, look_up)
            .await
    }

    /// Returns the identity of what was reached; asks for it if nothing was
    /// yet.
    pub(super) async fn catalog(self: &Arc<Self>) -> Result<CatalogId> {
        let known = &self.dialer.catalog;
        if known.get().is_none() {
            let bound = self.dialer.options.connect;
            self.call(bound, |_| std::future::ready(Ok(()))).await?;
        }
        Ok(*known.get().expect("a connection has read it"))
    }

    /// Reads what lies in the database.
    pub(super) async fn header(&self) -> Result<Option<Header>> {
        let dialer = Arc::clone(&self.dialer);
        let look = async move { schema::header(&dialer.connect(|_| {}).await?).await };
        let bound = self.dialer.options.connect;
        self.bounded(&self.runtime, bound, look).await
    }

    async fn bounded<T, F>(&self, runtime: &Handle, bound: Duration, call: F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let permit = Arc::clone(&self.calls).try_acquire_owned();
        let permit = permit.map_err(|_| StoreError::Overloaded)?;
        let task = runtime.spawn(async move {
            let _permit = permit;
            timeout(bound, call).await
        });
        self.result(task.await, bound)
    }

    fn result<T>(
        &self,
        ended: result::Result<result::Result<Step<T>, Elapsed>, JoinError>,
        bound: Duration,
    ) -> Result<T> {
        match ended {
            Ok(Ok(step)) => step.map_err(|fault| fault.at(&self.dialer.url)),
            Ok(Err(_)) => Err(StoreError::TimedOut(bound)),
            Err(error) => {
                let fault = Fault::Away(format!("the call was cut off: {error}"));
                Err(fault.at(&self.dialer.url))
            }
        }
    }

    /// Serves callers of these permits in their order. A connection is used again only if the
    /// call ended in order: an error of the server, or a call that was given up,
    /// may leave a transaction open.
    async fn alone<T, F>(
        &self,
        permits: &Semaphore,
        work: impl FnOnce(Arc<Connection>) -> F,
    ) -> Step<T>
    where
        F: Future<Output = Step<T>>,
    {
        let permit = permits.acquire().await;
        let _permit = permit.expect("the semaphore is never closed");
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.dialer.dial().await?,
        };
        let done = work(Arc::clone(&connection)).await;
        if matches!(done, Ok(_) | Err(Fault::Store(_))) {
            self.idle().push(connection);
        }
        done
    }

    /// Asks once more, on another connection, if one breaks or hangs: lookups only
    /// read.
    async fn pipelined(
        &self,
        lookups: &Reconnecting<Arc<Connection>>,
        name: &HostName,
    ) -> Step<Answer<SealedBytes>> {
        let is_open = |connection: &Arc<Connection>| connection.is_open();
        let first = lookups.up(is_open).await?;
        let mut asked = pin!(find::find(&first, name));
        match timeout(HANGS, &mut asked).await {
            Ok(Err(fault)) if fault.ends_connection() => {}
            Ok(done) => return done,
            Err(_) => return self.hedged(&first, asked, name).await,
        }
        first.retire();
        let lost = Instant::now();
        let second = lookups.up_after(Some(lost), is_open).await?;
        find::find(&second, name).await
    }

    /// Asks another connection beside the first one, and takes the answer of either. The
    /// first is retired only if the second answers before it: a slow database would not
    /// get faster by new connections.
    async fn hedged<F>(
        &self,
        first: &Connection,
        asked: Pin<&mut F>,
        name: &HostName,
    ) -> Step<Answer<SealedBytes>>
    where
        F: Future<Output = Step<Answer<SealedBytes>>>,
    {
        let second = pin!(async {
            let spare = self.spare().await?;
            find::find(&spare, name).await
        });
        match select(asked, second).await {
            Either::Left((Err(fault), second)) if fault.ends_connection() => second.await,
            Either::Left((done, _)) => done,
            Either::Right((Err(fault), asked)) if fault.is_no_answer() => asked.await,
            Either::Right((done, _)) => {
                if first.retire() {
                    self.dialer.options.retired.inc();
                }
                done
            }
        }
    }

    /// Returns a connection that no lookup hangs on: one for all that ask at the same time.
    async fn spare(&self) -> Step<Arc<Connection>> {
        let mut spare = self.spare.lock().await;
        let kept = spare.upgrade().filter(|connection| connection.is_open());
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let connection = self.dialer.dial().await?;
        *spare = Arc::downgrade(&connection);
        Ok(connection)
    }

    /// Returns the open connections.
    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        let mut idle = lock(&self.idle);
        idle.retain(|connection| connection.is_open());
        idle
    }
}

async fn dial(dialer: Arc<Dialer>) -> Result<Connected<Arc<Connection>>> {
    let dialled = dialer.dial().await;
    let connection = dialled.map_err(|fault| fault.at(&dialer.url))?;
    let ended = connection.ended();
    let ended = Box::pin(async {
        ended.await;
        "it was closed or broke off".into()
    });
    Ok(Connected { connection, ended })
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("url", &self.dialer.url)
            .finish_non_exhaustive()
    }
}

/// A third of the connections, rounded up, take one call at a time: a command that waits
/// for another's transaction must not keep an order waiting.
const EXCLUSIVE_SHARE: usize = 3;
/// Calls that wait for a connection; a longer queue would outlive deadlines.
const MAX_WAITING: usize = 1024;
/// A lookup takes a millisecond. After this time the server process, or the way
/// to it, may be dead, and three quarters of a server's 2 s are left.
const HANGS: Duration = Duration::from_millis(500);
