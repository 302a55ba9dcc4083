//! A copy of the file, of one state.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::fault::explain;
use super::read::StoreConnection;
use super::schema;
use crate::fault::unavailable;
use sekisho_certs::store::{Result, StoreError};

impl StoreConnection {
    /// Writes a copy into a new or empty file. Writers go on; what they write
    /// stays in the write-ahead log beside the store until the copy is made.
    pub(super) fn backup(&mut self, to: &Path) -> Result<()> {
        let path = to.to_str().ok_or_else(|| {
            StoreError::Refused(format!("{} is no UTF-8, name another file", to.display()).into())
        })?;
        self.run(|connection| {
            connection.execute("VACUUM INTO ?1", [path])?;
            Ok(())
        })?;
        let fault = |error| explain(to, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let copy = Connection::open_with_flags(to, flags).map_err(fault)?;
        schema::renew_log(&copy).map_err(fault)?;
        copy.close().map_err(|(_, error)| fault(error))?;
        let synced = File::open(to).and_then(|file| file.sync_all());
        synced.map_err(|error| {
            unavailable(format!("{} can't be made durable: {error}", to.display()))
        })
    }
}
