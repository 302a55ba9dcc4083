//! The catalogs that are measured.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use sekisho_certs::Catalog;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_stores::Mode;
use sekisho_stores::postgres;
use sekisho_stores::sqlite::Sqlite;
use sekisho_testkit::services;
use tempfile::TempDir;
use tokio::runtime::Handle;

/// Empty catalogs. Dropping them ends PostgreSQL and removes the file.
pub(super) struct Catalogs {
    sqlite: Arc<Sqlite>,
    postgres: Arc<postgres::Postgres>,
    server: services::Postgres,
    database: String,
    _folder: TempDir,
}

impl Catalogs {
    /// Starts PostgreSQL. The test kit panics if it is not installed, and says
    /// what to install.
    pub(super) fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let sqlite = Arc::new(Sqlite::open(&folder.path().join("hosts.db"), Mode::Create)?);
        let server = services::Postgres::start();
        let database = server.database();
        let url = postgres::Url::parse(&database, Path::new("/")).map_err(|why| anyhow!(why))?;
        let options = postgres::Options {
            mode: Mode::Create,
            ..postgres::Options::default()
        };
        let postgres = postgres::Postgres::new(&url, &options, &Handle::current())?;
        let catalogs = Self {
            sqlite,
            postgres: Arc::new(postgres),
            server,
            database,
            _folder: folder,
        };
        // The test kit's servers don't wait for the disk.
        catalogs.sql("ALTER SYSTEM SET fsync = on");
        catalogs.sql("SELECT pg_reload_conf()");
        Ok(catalogs)
    }

    pub(super) fn all(&self) -> [(&'static str, Arc<dyn Catalog>); 2] {
        let (sqlite, postgres) = (Arc::clone(&self.sqlite), Arc::clone(&self.postgres));
        [("sqlite", sqlite), (POSTGRES, postgres)]
    }

    /// Does what PostgreSQL does in the background from time to time: removes old
    /// versions of rows and writes changed pages. Else the next claim would do it.
    pub(super) fn vacuum(&self, name: &str) {
        if name == POSTGRES {
            self.sql("VACUUM ANALYZE sekisho.lineages, sekisho.lineage_claims");
            self.sql("CHECKPOINT");
        }
    }

    fn sql(&self, sql: &str) {
        let path = self.database.rsplit('/').next().unwrap_or_default();
        let database = path.split('?').next().unwrap_or_default();
        self.server.sql(database, sql);
    }
}

pub(super) fn ring() -> KeyRing {
    KeyRing::new(MasterKey::new(&[1; 32]))
}

const POSTGRES: &str = "postgres";
