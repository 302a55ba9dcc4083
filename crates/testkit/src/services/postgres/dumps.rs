//! Dumps of a database, and the server's files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Postgres;
use crate::services::ran;

impl Postgres {
    /// Dumps a database into this file, in the custom format of `pg_dump`.
    ///
    /// # Panics
    ///
    /// If `pg_dump` fails.
    pub fn archive(&self, database: &str, file: &Path) {
        let mut dump = self.client("pg_dump");
        ran(dump.args(["-Fc", "-d", database, "-f"]).arg(file));
    }

    /// Converts an archive to SQL text with `pg_restore`.
    ///
    /// # Panics
    ///
    /// If `pg_restore` fails.
    #[must_use]
    pub fn unpacked(&self, archive: &Path) -> String {
        let mut restore = Command::new(self.program("pg_restore"));
        ran(restore.args(["-f", "-"]).arg(archive))
    }

    /// Returns the data directory of the server, whose files a checkpoint has
    /// made current.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.sql("postgres", "CHECKPOINT");
        self.folder.join("data")
    }
}
