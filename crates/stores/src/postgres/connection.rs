//! A connection, and how it is made.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Options;
use super::fault::{Fault, Step};
use super::find;
use super::foreign::{self, Place, Received};
use super::params::Params;
use super::schema;
use super::tls::tls;
use super::url::Url;
use sekisho_certs::store::{CatalogId, LogId, Result};

/// Makes connections to one store.
pub(super) struct Dialer {
    pub(super) url: Url,
    tls: MakeRustlsConnect,
    pub(super) options: Options,
    /// True if the tables are somebody else's: then none are looked for.
    pub(super) is_foreign: bool,
    /// Learnt at the first contact; whatever is reached later must have it.
    pub(super) catalog: OnceLock<CatalogId>,
}

impl Dialer {
    pub(super) fn new(url: &Url, options: &Options) -> Result<Self> {
        Ok(Self {
            tls: tls(url)?,
            options: options.clone(),
            is_foreign: false,
            catalog: OnceLock::new(),
            url: url.clone(),
        })
    }

    /// Ends the query of a connection at the server, within 2 s, and waits up to 2 s for its
    /// end.
    pub(super) async fn cancel(&self, query: CancelToken, on: &Connection) {
        if let Some((place, _)) = &on.foreign {
            let cancelling = place.cancel(&query, &self.url.config, &self.tls);
            // Where that fails, `statement_timeout` ends the query.
            let _ = timeout(CANCEL, cancelling).await;
        }
        // PostgreSQL answers an empty query only when the one before has ended.
        let _ = timeout(CANCEL, on.run("")).await;
    }

    /// Connects to a store of this version, or to a database of somebody else. The runtime
    /// that polls this drives the connection.
    pub(super) async fn dial(&self) -> Step<Arc<Connection>> {
        let bound = self.options.connect;
        let dialled = timeout(bound, async {
            match self.is_foreign {
                true => self.dial_foreign().await,
                false => self.dial_catalog().await,
            }
        });
        let too_slow = |_| Err(Fault::Away(format!("no connection within {bound:?}")));
        dialled.await.unwrap_or_else(too_slow).map(Arc::new)
    }

    /// Prepares the statement of lookups. Behind PgBouncer the next transaction may meet a
    /// server process that does not know it.
    async fn dial_catalog(&self) -> Step<Connection> {
        let mut connection = self.connect(|_| {}).await?;
        let found = schema::settle(&connection, self.options.mode).await?;
        connection.log = Some(found.log);
        if !self.url.pgbouncer {
            let prepared = connection.client.prepare_typed(find::FIND, find::TYPES);
            connection.prepared = Some(prepared.await?);
        }
        if *self.catalog.get_or_init(|| found.catalog) != found.catalog {
            return Err(Fault::Unusable(
                "this is another store than before; restart to use it".into(),
            ));
        }
        Ok(connection)
    }

    /// Lets the server end a query that nobody waits for any more.
    async fn dial_foreign(&self) -> Step<Connection> {
        let connection = foreign::connect(&self.url.config, &self.tls).await?;
        if !self.url.pgbouncer {
            let bound = self.options.read.as_millis();
            connection
                .run(&format!("SET statement_timeout = {bound}"))
                .await?;
        }
        Ok(connection)
    }

    /// Connects, whatever lies in the database; hands over what the server
    /// says unasked. Callers bound the time.
    pub(super) async fn connect(
        &self,
        unasked: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Step<Connection> {
        let (client, mut driver) = self.url.config.connect(self.tls.clone()).await?;
        let driver = move |cx: &mut Context<'_>| driver.poll_message(cx);
        Ok(Connection::driven(client, driver, unasked))
    }
}

/// Message that the server sent unasked; none at the end.
type Said = Option<std::result::Result<AsyncMessage, tokio_postgres::Error>>;

/// A connection to the server, driven by a task of its own until it is dropped.
pub(super) struct Connection {
    pub(super) client: Client,
    /// [`find::FIND`]; none behind PgBouncer.
    prepared: Option<Statement>,
    /// Identity of the catalog's log as it is stored; none where no catalog was looked for.
    /// A lookup need not read it again: it never changes.
    log: Option<LogId>,
    /// Task of the driver. Not aborted, a driver of unread answers would wait for a dead
    /// server.
    _driver: JoinSet<()>,
    retired: watch::Sender<bool>,
    /// Where a database of somebody else is, and what it has sent.
    pub(super) foreign: Option<(Place, Received)>,
}

impl Connection {
    /// Spawns the driver of a connection, by the function that polls it.
    pub(super) fn driven(
        client: Client,
        mut driver: impl FnMut(&mut Context<'_>) -> Poll<Said> + Send + 'static,
        mut unasked: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Self {
        let retired = watch::Sender::new(false);
        let ended = retired.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(Ok(message)) = poll_fn(&mut driver).await {
                unasked(message);
            }
            // Ends what calls wait for.
            drop(driver);
            ended.send_replace(true);
        });
        Self {
            client,
            prepared: None,
            log: None,
            _driver: task,
            retired,
            foreign: None,
        }
    }

    /// Runs a statement and returns its rows, in one round trip, without
    /// preparing it under a name. Statements are sent in the order in which these
    /// futures are first polled.
    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Step<Vec<Row>> {
        let typed: Vec<_> = params.iter().map(|one| one.typed()).collect();
        Ok(self.client.query_typed(sql, &typed).await?)
    }

    /// Runs a statement and reads each of its rows.
    pub(super) async fn list<T>(
        &self,
        sql: &str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Step<T>,
    ) -> Step<Vec<T>> {
        self.query(sql, params).await?.iter().map(read).collect()
    }

    /// Runs such a statement where something is asked; has no rows otherwise.
    pub(super) async fn list_if<T>(
        &self,
        is_asked: bool,
        sql: &str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Step<T>,
    ) -> Step<Vec<T>> {
        match is_asked {
            true => self.list(sql, params, read).await,
            false => Ok(Vec::new()),
        }
    }

    /// Runs [`find::FIND`].
    pub(super) async fn find(&self, name: &str, parent: Option<&str>) -> Step<Vec<Row>> {
        let Some(prepared) = &self.prepared else {
            return self.query(find::FIND, &[&name, &parent]).await;
        };
        let params: &[&(dyn ToSql + Sync)] = &[&name, &parent];
        Ok(self.client.query(prepared, params).await?)
    }

    /// Returns the identity of the log as it is stored.
    pub(super) fn log(&self) -> Step<LogId> {
        self.log
            .ok_or_else(|| Fault::Unusable("no store was looked for in this database".into()))
    }

    /// Runs statements without parameters and without rows.
    pub(super) async fn run(&self, text: &str) -> Step<()> {
        Ok(self.client.batch_execute(text).await?)
    }

    /// Tells whether further calls may use it.
    pub(super) fn is_open(&self) -> bool {
        // A runtime that ends takes the driver with it.
        !*self.retired.borrow() && !self.client.is_closed()
    }

    /// Keeps further calls away. Those under way go on. Tells whether this was the first
    /// call.
    pub(super) fn retire(&self) -> bool {
        let retire = |retired: &mut bool| !std::mem::replace(retired, true);
        self.retired.send_if_modified(retire)
    }

    /// Resolves when the connection has ended or is retired.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut retired = self.retired.subscribe();
        // Without a sender it has ended as well.
        async move { _ = retired.wait_for(|retired| *retired).await }
    }
}

/// Limit of the request that ends a query.
const CANCEL: Duration = Duration::from_secs(2);
