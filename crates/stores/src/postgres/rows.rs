//! Values of PostgreSQL.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fault::{Fault, Step};
use crate::catalog_row::CatalogRow;

/// Reads a column's value.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Step<T> {
    row.try_get(column)
        .map_err(|error| Fault::Value(format!("column {column}: {error}")))
}

impl CatalogRow for Row {
    type Error = tokio_postgres::Error;

    fn integer(&self, column: usize) -> Step<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Step<bool> {
        get(self, column)
    }

    fn text(&self, column: usize) -> Step<Option<&str>> {
        get(self, column)
    }

    fn bytes(&self, column: usize) -> Step<Option<&[u8]>> {
        get(self, column)
    }

    fn document(&self, column: usize) -> Step<Arc<str>> {
        Ok(self.text(column)?.unwrap_or_default().into())
    }
}

/// Reads the 16 bytes that identify a catalog or a log.
pub(super) fn id(row: &Row, column: usize) -> Step<[u8; 16]> {
    let bytes: &[u8] = get(row, column)?;
    let id = bytes.try_into();
    id.map_err(|_| Fault::Value("an identity has not 16 bytes".into()))
}
