//! Tests of what only a file can do: be missing, locked, damaged, replaced, full.

mod backup;
mod broken;
mod children;
mod columns;
mod replaced;
mod together;
mod versions;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use sekisho_certs::store::{Precondition, StoreError, Write};
use sekisho_testkit::contract::fixture::{host_with, pattern, sealed};

/// A store file in a folder of its own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("hosts.db")
    }

    fn create(&self) -> Sqlite {
        Sqlite::open(&self.path(), Mode::Create).unwrap()
    }

    fn open(&self) -> Result<Sqlite> {
        Sqlite::open(&self.path(), Mode::Existing)
    }

    /// A connection as another program would open it.
    fn raw(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn opening_fails(&self, wanted: &str) -> StoreError {
        let error = self.open().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(wanted) && text.contains("hosts.db"), "{text}");
        error
    }
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

async fn finds(store: &Sqlite, text: &str) -> bool {
    store.find(&name(text)).await.unwrap().found.is_some()
}

/// Real time, as the watch runs on a thread; far more than it needs.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(20);
    tokio::time::timeout(bound, future).await.expect("in time")
}
