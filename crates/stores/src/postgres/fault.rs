//! Failures of calls to the database.

use tokio_postgres::error::{DbError, Severity, SqlState};

use super::url::Url;
use crate::catalog_row::Damaged;
use sekisho_certs::store::StoreError;
use sekisho_https::describe;

/// Failure of a step of a call, before the database's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The client library's or the server's own.
    Sql(tokio_postgres::Error),
    /// Ours, complete.
    Store(StoreError),
    /// A stored value that this program can't have written.
    Value(String),
    /// There is no store that this program can use; says why.
    Unusable(String),
    /// The database can't be reached; says why.
    Away(String),
    /// The answer is none that the caller can use, such as one that is too large; says why.
    Unfit(String),
}

/// Result of a step of a call.
pub(crate) type Step<T> = std::result::Result<T, Fault>;

impl Fault {
    /// With the database's name, which shows no password.
    pub(super) fn at(self, url: &Url) -> StoreError {
        let shown = &url.to_string();
        match self {
            Self::Store(error) => error,
            Self::Value(what) => StoreError::Corrupt(format!("{shown} is damaged: {what}").into()),
            Self::Unusable(why) => StoreError::Corrupt(format!("{shown}: {why}").into()),
            Self::Away(why) => StoreError::Unavailable(format!("{shown}: {why}").into()),
            Self::Unfit(why) => StoreError::Failed(format!("{shown}: {why}").into()),
            Self::Sql(error) => match error.as_db_error() {
                Some(said) => refused(shown, said),
                None => StoreError::Unavailable(format!("{shown}: {}", describe(&error)).into()),
            },
        }
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

impl From<Damaged> for Fault {
    fn from(Damaged(what): Damaged) -> Self {
        Self::Value(what)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
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
