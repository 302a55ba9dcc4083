//! Failures of calls to the database.

use tokio_postgres::error::{DbError, Severity, SqlState};

use super::url::Url;
use crate::fault;
use sekisho_certs::store::StoreError;
use sekisho_https::describe;

/// Failure of a step of a call.
pub(crate) type Fault = fault::Fault<tokio_postgres::Error>;

/// Result of a step of a call.
pub(crate) type Step<T> = std::result::Result<T, Fault>;

impl Fault {
    /// Adds the database's name.
    pub(super) fn at(self, url: &Url) -> StoreError {
        self.named(url, |error| match error.as_db_error() {
            Some(said) => refused(&url.to_string(), said),
            None => StoreError::Unavailable(format!("{url}: {}", describe(&error)).into()),
        })
    }

    /// Tells whether the connection ended, or is ended by the server after this.
    pub(super) fn ends_connection(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        let severity = error.as_db_error().map(DbError::parsed_severity);
        matches!(severity, None | Some(Some(Severity::Fatal)))
    }

    /// Tells whether no server has answered.
    pub(super) fn is_no_answer(&self) -> bool {
        matches!(self, Self::Away(_)) || self.ends_connection()
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

/// Makes the error of the server's own words. Its detail is left out: it may quote values.
fn refused(shown: &str, said: &DbError) -> StoreError {
    let code = said.code();
    let mut text = format!("{shown}: {} ({})", said.message(), code.code());
    if PREPARED_ELSEWHERE.contains(code) {
        text.push_str(BEHIND_POOLER);
    }
    match &code.code()[..2] {
        // Data that it can't hold, such as a NUL in a text. The others come from queries of
        // scripts alone: a function's RAISE, or two rows where it takes one.
        "20" | "21" | "22" | "44" | "P0" => StoreError::Refused(text.into()),
        // Somebody else wrote these tables.
        "23" => StoreError::Conflict(text.into()),
        // Damaged pages. Poolers report outages under other codes of class XX.
        "XX" if matches!(code.code(), "XX001" | "XX002") => StoreError::Corrupt(text.into()),
        // Tables that are not as this program made them.
        "42" | "3F" if *code != SqlState::INSUFFICIENT_PRIVILEGE => {
            StoreError::Corrupt(text.into())
        }
        // Starting, stopping, full, out of connections, a wrong password: all
        // of it heals without us.
        _ => StoreError::Unavailable(text.into()),
    }
}

/// A prepared statement that is there already, or is not there: another server
/// process answers than the one that prepared it.
const PREPARED_ELSEWHERE: [SqlState; 2] = [
    SqlState::DUPLICATE_PSTATEMENT,
    SqlState::INVALID_SQL_STATEMENT_NAME,
];
const BEHIND_POOLER: &str =
    "; behind PgBouncer in transaction mode, add pgbouncer=1 to the URL of the store";
