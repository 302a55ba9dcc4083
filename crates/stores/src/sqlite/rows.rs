//! Values of SQLite, and what goes wrong with them.

use std::sync::Arc;

use rusqlite::{Error, Row};

use crate::catalog_row::CatalogRow;
use crate::fault;

/// Failure of a step of a call.
pub(crate) type Fault = fault::Fault<Error>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

/// Result of a step of a call.
pub(crate) type Step<T> = std::result::Result<T, Fault>;

impl CatalogRow for Row<'_> {
    type Error = Error;

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
