//! Dumps of a server, and its files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Postgres;
use crate::services::ran;

impl Postgres {
    /// Packs a database into this file, in the custom form of `pg_dump`.
    ///
    /// # Panics
    /// If it fails.
    pub fn archive(&self, database: &str, file: &Path) {
        let mut dump = self.client("pg_dump");
        ran(dump.args(["-Fc", "-d", database, "-f"]).arg(file));
    }

    /// Unpacks an archive as text.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    pub fn unpacked(&self, archive: &Path) -> String {
        let mut restore = Command::new(self.program("pg_restore"));
        ran(restore.args(["-f", "-"]).arg(archive))
    }

    /// Returns the folder of the server's files, after a checkpoint.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.sql("postgres", "CHECKPOINT");
        self.folder.join("data")
    }
}
