//! Failures of stores.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::timeout;

use sekisho_certs::store::{Result, StoreError};

/// Makes the error of a store that can't be reached, or broke off.
pub(crate) fn unavailable(why: impl Display) -> StoreError {
    StoreError::Unavailable(why.to_string().into())
}

/// Drops a call that takes too long.
pub(crate) async fn within<T>(bound: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = timeout(bound, call).await;
    answer.unwrap_or(Err(StoreError::TimedOut(bound)))
}

/// Failure of a step of a call to a database, before its name is known.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "SQLite has less to tell apart")
)]
pub(crate) enum Fault<E> {
    /// The client library's or the database's own.
    Sql(E),
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

impl<E> Fault<E> {
    /// Makes the error for a missing row of `meta`, which each store has.
    pub(crate) fn no_meta() -> Self {
        Self::Value("the table meta is empty".into())
    }

    /// Adds the name of the database, which shows no password. `explain` words its own error.
    pub(crate) fn named(
        self,
        shown: &dyn Display,
        explain: impl FnOnce(E) -> StoreError,
    ) -> StoreError {
        match self {
            Self::Sql(error) => explain(error),
            Self::Store(error) => error,
            Self::Value(what) => StoreError::Corrupt(format!("{shown} is damaged: {what}").into()),
            Self::Unusable(why) => StoreError::Corrupt(format!("{shown}: {why}").into()),
            Self::Away(why) => StoreError::Unavailable(format!("{shown}: {why}").into()),
            Self::Unfit(why) => StoreError::Failed(format!("{shown}: {why}").into()),
        }
    }
}

impl<E> From<StoreError> for Fault<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
