//! Any database, for the queries of an operator's script.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{CancelToken, Row};

use super::Options;
use super::connection::Connection;
use super::fault::{Fault, Step};
use super::foreign::Received;
use super::pool::Pool;
use super::url::Url;
use sekisho_certs::hook::{SqlRow, SqlValue};
use sekisho_certs::store::Result;

/// A database with tables of somebody else. Connections are kept, as many as the URL's
/// `pool` says, and have one query at a time: one that is slow holds up no other.
#[derive(Debug)]
pub struct ScriptDatabase {
    pool: Arc<Pool>,
    bound: Duration,
    /// Of connections whose query is being cancelled, as many as the pool has.
    cancels: Arc<Semaphore>,
}

impl ScriptDatabase {
    /// Connects to nothing yet. `runtime` drives the connections. A query may take
    /// `bound`, its wait for a connection included.
    ///
    /// # Errors
    /// If the file of trusted authorities can't be used.
    pub fn new(url: &Url, bound: Duration, runtime: &Handle) -> Result<Self> {
        let options = Options {
            connect: bound,
            read: bound,
            ..Options::default()
        };
        Ok(Self {
            pool: Arc::new(Pool::of_any(url, &options, runtime)?),
            bound,
            cancels: Arc::new(Semaphore::new(url.pool)),
        })
    }

    /// Runs one statement; what it changes is committed. Parameters are never part of its
    /// text: where a column has another type than they have, the text casts them, such as
    /// `$1::uuid`.
    ///
    /// # Errors
    /// If the database can't be reached or refuses the statement, if a column has a type
    /// that [`SqlValue`] lacks, or the answer has over 1,000 rows or 1 MiB. A connection on
    /// which over 4 MiB arrive for one query is closed.
    pub async fn query(&self, text: String, parameters: Vec<SqlValue>) -> Result<Vec<SqlRow>> {
        let pool = Arc::clone(&self.pool);
        let cancels = Arc::clone(&self.cancels);
        let query = async move |on: Arc<Connection>| {
            let mut under_way = UnderWay {
                pool,
                cancels,
                cancel: Some(on.client.cancel_token()),
                on: Arc::clone(&on),
            };
            let rows = rows(&on, &text, parameters).await;
            let has_ended = match &rows {
                Ok(_) | Err(Fault::Store(_)) => true,
                Err(Fault::Sql(error)) => error.as_db_error().is_some(),
                Err(_) => false,
            };
            if has_ended {
                under_way.cancel = None;
            }
            rows
        };
        self.pool.call(self.bound, query).await
    }
}

/// Query under way. Dropped before its end, it ends at the server too: `statement_timeout`
/// counts from its own begin, and there is none behind `PgBouncer`.
struct UnderWay {
    pool: Arc<Pool>,
    cancels: Arc<Semaphore>,
    /// Kept open until the query has ended: `PgBouncer` ignores requests to cancel a query
    /// whose client has left.
    on: Arc<Connection>,
    cancel: Option<CancelToken>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(cancel) = self.cancel.take() else {
            return;
        };
        // Where cancelling is slow, further connections are closed at once: queries that
        // fail would keep ever more of them.
        let Ok(permit) = Arc::clone(&self.cancels).try_acquire_owned() else {
            return;
        };
        let (dialer, on) = (Arc::clone(&self.pool.dialer), Arc::clone(&self.on));
        self.pool.runtime.spawn(async move {
            let _permit = permit;
            dialer.cancel(cancel, &on).await;
            drop(on);
        });
    }
}

async fn rows(on: &Connection, text: &str, parameters: Vec<SqlValue>) -> Step<Vec<SqlRow>> {
    let received = on.foreign.as_ref().map(|(_, received)| received);
    if let Some(received) = received {
        received.begin();
    }
    match read(on, text, parameters).await {
        Err(Fault::Sql(_)) if received.is_some_and(Received::is_exceeded) => Err(Fault::Unfit(
            "over 4 MiB came for one query: ask for less, as by left(column, 1000)".into(),
        )),
        read => read,
    }
}

/// Reads the rows as they come, within the bound of an answer.
async fn read(on: &Connection, text: &str, parameters: Vec<SqlValue>) -> Step<Vec<SqlRow>> {
    let typed = parameters.into_iter().map(typed);
    let mut stream = pin!(on.client.query_typed_raw(text, typed).await?);
    let (mut rows, mut size) = (Vec::new(), 0);
    while let Some(row) = stream.try_next().await? {
        size += row.raw_size_bytes();
        if rows.len() == MAX_ROWS || size > MAX_BYTES {
            let why = "the answer has over 1,000 rows or 1 MiB: ask for less, as by LIMIT";
            return Err(Fault::Unfit(why.into()));
        }
        rows.push(columns(&row)?);
    }
    Ok(rows)
}

fn columns(row: &Row) -> Step<SqlRow> {
    let named = row.columns().iter().enumerate().map(|(index, column)| {
        let value = value(row, index, column.type_()).map_err(|why| {
            let (name, kind) = (column.name(), column.type_());
            Fault::Unfit(format!("the column {name}, of type {kind}: {why}"))
        });
        Ok((column.name().into(), value?))
    });
    named.collect()
}

fn value(row: &Row, at: usize, kind: &Type) -> std::result::Result<SqlValue, Box<dyn Error>> {
    let value = match *kind {
        Type::BOOL => row.try_get::<_, Option<bool>>(at)?.map(SqlValue::Bool),
        Type::INT2 => row.try_get::<_, Option<i16>>(at)?.map(integer),
        Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(integer),
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(integer),
        Type::OID => row.try_get::<_, Option<u32>>(at)?.map(integer),
        Type::FLOAT4 => row
            .try_get::<_, Option<f32>>(at)?
            .map(|real| SqlValue::Float(real.into())),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.map(SqlValue::Float),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map(SqlValue::Bytes),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
            row.try_get::<_, Option<String>>(at)?.map(SqlValue::Text)
        }
        Type::JSON | Type::JSONB | Type::XML => row
            .try_get::<_, Option<Document>>(at)?
            .map(|document| SqlValue::Text(document.0)),
        _ => return Err("write a cast to text into the query, such as column::text".into()),
    };
    Ok(value.unwrap_or(SqlValue::Null))
}

fn integer(number: impl Into<i64>) -> SqlValue {
    SqlValue::Integer(number.into())
}

fn typed(value: SqlValue) -> (Box<dyn ToSql + Sync + Send>, Type) {
    match value {
        SqlValue::Null => (Box::new(None::<String>), Type::UNKNOWN),
        SqlValue::Bool(value) => (Box::new(value), Type::BOOL),
        SqlValue::Integer(value) => (Box::new(value), Type::INT8),
        SqlValue::Float(value) => (Box::new(value), Type::FLOAT8),
        SqlValue::Text(value) => (Box::new(value), Type::TEXT),
        SqlValue::Bytes(value) => (Box::new(value), Type::BYTEA),
    }
}

/// Text of a document. That of `jsonb` follows a version number.
struct Document(String);

impl<'a> FromSql<'a> for Document {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn Error + Sync + Send>> {
        let text = match (kind, raw) {
            (&Type::JSONB, [1, text @ ..]) => text,
            (&Type::JSONB, _) => return Err("its version is not known".into()),
            _ => raw,
        };
        Ok(Self(str::from_utf8(text)?.into()))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::JSON | Type::JSONB | Type::XML)
    }
}

const MAX_ROWS: usize = 1000;
/// Bytes of an answer.
const MAX_BYTES: usize = 1 << 20;
