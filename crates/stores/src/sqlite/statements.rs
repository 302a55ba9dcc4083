//! Running statements that are prepared once per connection.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::rows::Step;

/// Runs a statement.
pub(crate) fn run(sql: &Connection, text: &str, values: impl Params) -> rusqlite::Result<()> {
    change(sql, text, values).map(|_| ())
}

/// Runs a statement, and returns how many rows it changed.
pub(crate) fn change(sql: &Connection, text: &str, values: impl Params) -> rusqlite::Result<usize> {
    sql.prepare_cached(text)?.execute(values)
}

/// Reads the first row; none if there is none.
pub(crate) fn first<T>(
    sql: &Connection,
    text: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut statement = sql.prepare_cached(text)?;
    statement.query_row(values, read).optional()
}

/// Reads all rows.
pub(crate) fn list<T>(
    sql: &Connection,
    text: &str,
    values: impl Params,
    read: impl Fn(&Row<'_>) -> Step<T>,
) -> Step<Vec<T>> {
    let mut statement = sql.prepare_cached(text)?;
    let mut rows = statement.query(values)?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        listed.push(read(row)?);
    }
    Ok(listed)
}
