//! A few connections for all calls. Each call is a task of its own: none
//! depends on who polls it, and one whose caller went away ends in order.
//!
//! Tasks and connections belong to the runtime that the pool was made with.
//! Only look-ups are tasks of the runtime that serves their client, which soon
//! has a connection of its own ([`super::beside`]): question and answer then
//! cross no threads. Until then, and when it is in use, any other will do.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Socket};

use super::beside::Beside;
use super::connection::Connection;
use super::fault::{Fault, Step};
use super::schema::{self, Header};
use super::share::{Seat, Shared, Used};
use super::tls::{Encrypted, Tls};
use super::url::Url;
use super::{Mode, Options};
use crate::near;
use sekisho_certs::store::{CatalogId, Result, StoreError};

/// The connections and what it takes to make one.
pub(super) struct Pool {
    pub(super) url: Url,
    tls: Tls,
    mode: Mode,
    pub(super) options: Options,
    pub(super) runtime: Handle,
    idle: Mutex<Vec<Connection>>,
    /// Those that look-ups use together.
    pub(super) shared: Shared,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
    /// Learnt at the first contact; whatever is reached later must have it.
    catalog: OnceLock<CatalogId>,
    pub(super) beside: Beside,
}

/// What drives a connection.
pub(super) type Driver = tokio_postgres::Connection<Socket, Encrypted<Socket>>;

impl Pool {
    pub(super) fn new(url: &Url, mode: Mode, options: &Options, runtime: &Handle) -> Result<Self> {
        // Behind PgBouncer each statement may go to another server process:
        // none waits behind another. Elsewhere some are left that are given
        // back after each use, or nobody but look-ups might have a turn: one,
        // and one more where a worker's own may be in the making.
        let most = match (url.pgbouncer, url.pool) {
            (true, _) | (_, 1) => 0,
            (_, 2) => 1,
            (_, pool) => pool - 2,
        };
        Ok(Self {
            tls: Tls::new(url)?,
            mode,
            options: options.clone(),
            runtime: runtime.clone(),
            idle: Mutex::default(),
            shared: Shared::new(most),
            turns: Arc::new(Semaphore::new(url.pool)),
            places: Arc::new(Semaphore::new(url.pool + QUEUE)),
            catalog: OnceLock::new(),
            beside: Beside::default(),
            url: url.clone(),
        })
    }

    /// Runs a call on a connection of its own, all of it within this bound.
    pub(super) async fn call<T, F>(
        self: &Arc<Self>,
        bound: Duration,
        work: impl FnOnce(Lent) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let call = async move {
            let turn = pool.turn().await;
            work(pool.lend(turn).await?).await
        };
        self.bounded(&self.runtime, bound, call).await
    }

    /// The same for a single statement that reads: those that come at the same
    /// time share a connection, and with it each write and each wake-up.
    pub(super) async fn look_up<T, F>(
        self: &Arc<Self>,
        bound: Duration,
        work: impl FnOnce(Seat) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let call = async move {
            let seat = pool.share().await?;
            work(seat).await
        };
        let near = near::here(|near| near.runtime.clone());
        let runtime = near.as_ref().unwrap_or(&self.runtime);
        self.bounded(runtime, bound, call).await
    }

    async fn bounded<T, F>(
        self: &Arc<Self>,
        runtime: &Handle,
        bound: Duration,
        call: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| StoreError::Overloaded)?;
        let pool = Arc::clone(self);
        let task = runtime.spawn(async move {
            let _place = place;
            let ended = timeout(bound, call).await;
            match ended {
                Ok(step) => step.map_err(|fault| fault.at(&pool.url.to_string())),
                Err(_) => Err(StoreError::TimedOut(bound)),
            }
        });
        task.await.unwrap_or_else(|error| {
            let text = format!("{}: the call was cut off: {error}", self.url);
            Err(StoreError::Unavailable(text.into()))
        })
    }

    /// The identity of what was reached; asks for it if nothing was yet.
    pub(super) async fn catalog(self: &Arc<Self>) -> Result<CatalogId> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(*catalog);
        }
        let bound = self.options.connect;
        self.call(bound, |_| std::future::ready(Ok(()))).await?;
        Ok(*self.catalog.get().expect("a connection has read it"))
    }

    /// Whoever came first has it first, a look-up or another call.
    async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.expect("the semaphore is never closed")
    }

    async fn lend(self: &Arc<Self>, turn: OwnedSemaphorePermit) -> Step<Lent> {
        match self.take_idle() {
            Some(connection) => Ok(self.lent(connection, turn)),
            None => self.made_at_home(turn).await,
        }
    }

    fn lent(self: &Arc<Self>, connection: Connection, turn: OwnedSemaphorePermit) -> Lent {
        Lent {
            pool: Arc::clone(self),
            connection: Some(connection),
            _turn: turn,
        }
    }

    /// A place on a connection of this runtime's, else on any.
    async fn share(self: &Arc<Self>) -> Step<Seat> {
        if let Some(used) = self.shared.prompt_here() {
            return Ok(Seat::among(self, used));
        }
        if let Some(lent) = self.idle_here() {
            return Ok(self.for_others_too(lent));
        }
        let seat = self.share_any().await?;
        self.make_one_here();
        Ok(seat)
    }

    /// A place on a connection that others use too: on one that answers, else
    /// on one more, else on any. Who finds none waits for a place or a turn.
    async fn share_any(self: &Arc<Self>) -> Step<Seat> {
        if let Some(used) = self.shared.prompt() {
            return Ok(Seat::among(self, used));
        }
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return self.one_more(turn).await;
        }
        if let Some(used) = self.shared.any() {
            return Ok(Seat::among(self, used));
        }
        tokio::select! {
            biased;
            used = self.shared.place() => Ok(Seat::among(self, used)),
            turn = self.turn() => self.one_more(turn).await,
        }
    }

    /// On one more; on any that there is, should none be had.
    async fn one_more(self: &Arc<Self>, turn: OwnedSemaphorePermit) -> Step<Seat> {
        match self.lend(turn).await {
            Ok(lent) => Ok(self.for_others_too(lent)),
            Err(fault) => {
                let used = self.shared.any().ok_or(fault)?;
                Ok(Seat::among(self, used))
            }
        }
    }

    /// As long as a turn remains that comes round.
    fn for_others_too(self: &Arc<Self>, lent: Lent) -> Seat {
        let used = Arc::new(Used::new(lent));
        if self.shared.add(&used) {
            Seat::among(self, used)
        } else {
            Seat::alone(used)
        }
    }

    /// One of this runtime's, the last that was used, else any.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle();
        let here = idle.iter().rposition(Connection::is_here);
        here.map(|at| idle.remove(at)).or_else(|| idle.pop())
    }

    /// One of the runtime that serves here, with a turn. The last turn but one
    /// is left alone: a connection that is always in use would keep it.
    fn idle_here(self: &Arc<Self>) -> Option<Lent> {
        near::id()?;
        let turn = self.spare_turn()?;
        let mut idle = self.idle();
        let at = idle.iter().rposition(Connection::is_here)?;
        let connection = idle.remove(at);
        drop(idle);
        Some(self.lent(connection, turn))
    }

    /// A turn, if at least one more is left.
    pub(super) fn spare_turn(&self) -> Option<OwnedSemaphorePermit> {
        let two = Arc::clone(&self.turns).try_acquire_many_owned(2);
        two.ok()?.split(1)
    }

    /// On the pool's own runtime, whoever needs it. Should the caller go away,
    /// the turn is kept until it is made.
    async fn made_at_home(self: &Arc<Self>, turn: OwnedSemaphorePermit) -> Step<Lent> {
        let pool = Arc::clone(self);
        let make = async move {
            let connection = pool.ready().await?;
            Ok(pool.lent(connection, turn))
        };
        let made = self.runtime.spawn(make).await;
        made.unwrap_or_else(|error| Err(Fault::Away(format!("the call was cut off: {error}"))))
    }

    /// Those that can be used.
    pub(super) fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(Connection::is_usable);
        idle
    }

    /// Whether one more may be made by who has a turn.
    pub(super) fn has_room(&self, idle: usize) -> bool {
        idle <= self.turns.available_permits()
    }

    /// A new connection to a store of this version, driven by the runtime that
    /// makes it.
    pub(super) async fn ready(&self) -> Step<Connection> {
        let bound = self.options.connect;
        let made = timeout(bound, async {
            let connection = self.open().await?;
            let catalog = schema::settle(&connection, self.mode).await?;
            Ok((connection, catalog))
        });
        let (connection, catalog) = made.await.unwrap_or_else(|_| Err(slow(bound)))?;
        if *self.catalog.get_or_init(|| catalog) != catalog {
            let text = format!(
                "{} is another store than before; restart to use it",
                self.url
            );
            return Err(StoreError::Corrupt(text.into()).into());
        }
        Ok(connection)
    }

    /// What lies in the database.
    pub(super) async fn header(self: &Arc<Self>) -> Result<Header> {
        let pool = Arc::clone(self);
        let look = async move {
            let bound = pool.options.connect;
            let look = async { schema::header(&pool.open().await?).await };
            let looked = timeout(bound, look).await;
            let looked = looked.unwrap_or_else(|_| Err(slow(bound)));
            looked.map_err(|fault| fault.at(&pool.url.to_string()))
        };
        let looked = self.runtime.spawn(look).await;
        looked.unwrap_or_else(|error| {
            let text = format!("{}: the call was cut off: {error}", self.url);
            Err(StoreError::Unavailable(text.into()))
        })
    }

    async fn open(&self) -> Step<Connection> {
        let (client, driver) = self.connect().await?;
        let driver = tokio::spawn(drive(driver, |_| {}));
        let prepares = !self.url.pgbouncer;
        Ok(Connection::new(client, driver.abort_handle(), prepares))
    }

    /// A bare connection; whoever calls it bounds it.
    pub(super) async fn connect(&self) -> Step<(Client, Driver)> {
        Ok(self.url.config.connect(self.tls.clone()).await?)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("url", &self.url)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// A connection for one call. It goes back when the call has ended in order,
/// and is closed else.
pub(super) struct Lent {
    pool: Arc<Pool>,
    connection: Option<Connection>,
    _turn: OwnedSemaphorePermit,
}

impl Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("it is taken only when dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let connection = self.connection.take();
        self.pool
            .idle()
            .extend(connection.filter(Connection::is_usable));
    }
}

/// Drives a connection until it ends; hands over what the server says on its
/// own.
pub(super) async fn drive(mut driver: Driver, mut said: impl FnMut(AsyncMessage)) {
    while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
        said(message);
    }
}

fn slow(bound: Duration) -> Fault {
    Fault::Away(format!("no connection within {bound:?}"))
}

/// What waits for a connection; a queue that is longer would outlive
/// deadlines.
const QUEUE: usize = 1024;
