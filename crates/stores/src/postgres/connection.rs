//! One connection: its statements, and whether it can be used again.

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::fault::Step;
use crate::near;

/// A statement of ours with the types of its parameters, so that one that is
/// not prepared needs no question to the server.
pub(super) struct Sql {
    pub(super) text: &'static str,
    pub(super) types: &'static [Type],
}

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection to the server, driven by a task of its own.
pub(super) struct Connection {
    client: Client,
    driver: AbortHandle,
    /// The runtime that drives it, if that serves.
    near: Option<near::Id>,
    /// By the address of their [`Sql`]; none where the next transaction may
    /// meet another server process, as behind PgBouncer.
    prepared: Option<Mutex<HashMap<usize, Statement>>>,
    /// Answers that are waited for, or were not to the end, and open
    /// transactions.
    open: AtomicUsize,
    /// Whether an answer was not waited for to the end.
    cut: AtomicBool,
}

impl Connection {
    /// Made on the runtime that drives it.
    pub(super) fn new(client: Client, driver: AbortHandle, prepares: bool) -> Self {
        Self {
            client,
            driver,
            near: near::id(),
            prepared: prepares.then(Mutex::default),
            open: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
        }
    }

    /// Runs a statement and gives its rows. It is sent when the future is
    /// first polled, if it was prepared before.
    pub(super) async fn query(&self, sql: &'static Sql, params: Params<'_>) -> Step<Vec<Row>> {
        let Some(prepared) = &self.prepared else {
            return self.query_once(sql, params).await;
        };
        let known = lock(prepared).get(&address(sql)).cloned();
        let waiting = self.waiting();
        let statement = match known {
            Some(statement) => statement,
            None => self.prepare(sql, prepared).await?,
        };
        let rows = self.client.query(&statement, params).await;
        waiting.ended();
        Ok(rows?)
    }

    /// The same without preparing it, in one round trip.
    pub(super) async fn query_once(&self, sql: &'static Sql, params: Params<'_>) -> Step<Vec<Row>> {
        let types = sql.types.iter().cloned();
        let params: Vec<_> = params.iter().copied().zip(types).collect();
        let waiting = self.waiting();
        let rows = self.client.query_typed(sql.text, &params).await;
        waiting.ended();
        Ok(rows?)
    }

    /// Runs statements without parameters and without rows.
    pub(super) async fn run(&self, text: &str) -> Step<()> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let ran = self.client.batch_execute(text).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        Ok(ran?)
    }

    /// Prepares what is not yet, so that what is sent at once later keeps its
    /// order.
    pub(super) async fn prepare_all(&self, all: &[&'static Sql]) -> Step<()> {
        let Some(prepared) = &self.prepared else {
            return Ok(());
        };
        for sql in all {
            if !lock(prepared).contains_key(&address(sql)) {
                self.open.fetch_add(1, Ordering::Relaxed);
                self.prepare(sql, prepared).await?;
                self.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    async fn prepare(
        &self,
        sql: &'static Sql,
        prepared: &Mutex<HashMap<usize, Statement>>,
    ) -> Step<Statement> {
        let statement = self.client.prepare_typed(sql.text, sql.types).await?;
        lock(prepared).insert(address(sql), statement.clone());
        Ok(statement)
    }

    /// From here on the connection is not used again unless
    /// [`Connection::ended`] says that the transaction has ended.
    pub(super) fn begun(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// The transaction has ended.
    pub(super) fn ended(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn waiting(&self) -> Waiting<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether this thread's runtime drives it.
    pub(super) fn is_here(&self) -> bool {
        self.near == near::id()
    }

    /// Which runtime that serves drives it, if one does.
    pub(super) fn near(&self) -> Option<near::Id> {
        self.near
    }

    /// Whether another look-up may use it at the same time.
    pub(super) fn is_sound(&self) -> bool {
        !self.cut.load(Ordering::Relaxed) && !self.client.is_closed()
    }

    /// Whether another call may use it.
    pub(super) fn is_usable(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0 && !self.client.is_closed()
    }
}

/// The wait for an answer. Given up, the connection is done for.
struct Waiting<'a>(&'a Connection);

impl Waiting<'_> {
    fn ended(self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.cut.store(true, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    /// One that waits for an answer would wait for a dead server for good.
    fn drop(&mut self) {
        if self.open.load(Ordering::Relaxed) > 0 {
            self.driver.abort();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// Statements are statics: each has an address of its own.
fn address(sql: &'static Sql) -> usize {
    ptr::from_ref(sql).addr()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
