//! Values of SQLite, and what goes wrong with them.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Error, Row};

use super::fault::explain;
use crate::catalog_row::{CatalogRow, Damaged};
use sekisho_certs::store::StoreError;

/// Error of a step, before the file's name is known.
pub(crate) enum Fault {
    /// SQLite's own.
    Sql(rusqlite::Error),
    /// Ours, complete.
    Store(StoreError),
    /// A stored value that this program can't have written.
    Value(String),
}

impl Fault {
    /// Adds the file's name.
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => explain(path, &error),
            Self::Store(error) => error,
            Self::Value(what) => {
                StoreError::Corrupt(format!("{} is damaged: {what}", path.display()).into())
            }
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
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

/// Result of a step of a call.
pub(crate) type Step<T> = std::result::Result<T, Fault>;

impl CatalogRow for Row<'_> {
    type Fault = Fault;

    fn integer(&self, column: usize) -> Step<Option<i64>> {
        Ok(self.get(column)?)
    }

    fn flag(&self, column: usize) -> Step<bool> {
        Ok(self.get(column)?)
    }

    fn text(&self, column: usize) -> Step<Option<&str>> {
        let text = self.get_ref(column)?.as_str_or_null();
        Ok(text.map_err(Error::from)?)
    }

    fn bytes(&self, column: usize) -> Step<Option<&[u8]>> {
        let bytes = self.get_ref(column)?.as_blob_or_null();
        Ok(bytes.map_err(Error::from)?)
    }

    /// U+FFFD at the start marks bytes that are not UTF-8: no JSON begins with it.
    fn document(&self, column: usize) -> Step<Arc<str>> {
        let bytes = self.get_ref(column)?.as_bytes().unwrap_or_default();
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => format!("\u{fffd}{}", String::from_utf8_lossy(bytes)).into(),
        })
    }
}
