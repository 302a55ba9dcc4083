//! The catalog that is measured, filled by SQL.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer};
use sekisho_stores::postgres::{Mode, Options, Postgres, Url};
use sekisho_testkit::services;
use tokio::runtime::Handle;

use super::HOSTS_PER_CREDENTIAL;

/// Filled catalog. Dropping it ends PostgreSQL.
pub(super) struct Filled {
    server: services::Postgres,
    database: String,
    pub(super) hosts: u64,
}

impl Filled {
    /// Starts PostgreSQL and fills it. The test kit panics if it is not installed, and
    /// says what to install.
    pub(super) async fn start(hosts: u64) -> Result<Self> {
        let server = services::Postgres::start();
        let filled = Self {
            database: server.database(),
            server,
            hosts,
        };
        // The test kit's servers don't wait for the disk.
        for setting in ["fsync = on", "max_wal_size = '4GB'"] {
            filled.sql(&format!("ALTER SYSTEM SET {setting}"));
        }
        filled.sql("SELECT pg_reload_conf()");
        // Makes the tables.
        Sealer::create(open(&filled.url(1))?, ring()).await?;
        filled.fill();
        Ok(filled)
    }

    /// Returns the URL of the catalog, with so many connections.
    pub(super) fn url(&self, pool: usize) -> String {
        format!("{}&pool={pool}", self.database)
    }

    /// Opens the catalog with connections of its own, to write what is sealed.
    pub(super) async fn sealer(&self, pool: usize) -> Result<Sealer> {
        Ok(Sealer::open(open(&self.url(pool))?, ring()).await?)
    }

    fn fill(&self) {
        let begun = Instant::now();
        let credentials = (self.hosts / HOSTS_PER_CREDENTIAL).to_string();
        self.sql(&CREDENTIALS.replace("$COUNT", &credentials));
        for first in (0..self.hosts).step_by(CHUNK) {
            let last = self.hosts.min(first + CHUNK as u64);
            let sql = HOSTS.replace("$CREDENTIALS", &credentials);
            let sql = sql.replace("$FIRST", &first.to_string());
            self.sql(&sql.replace("$LAST", &(last - 1).to_string()));
            let seconds = begun.elapsed().as_secs();
            println!("{last} of {} hosts written after {seconds} s", self.hosts);
        }
        self.sql("VACUUM ANALYZE");
        self.sql("CHECKPOINT");
    }

    /// Removes what the window before left behind, so that each begins alike.
    pub(super) fn vacuum(&self) {
        self.sql(
            "VACUUM ANALYZE sekisho.meta, sekisho.changes, sekisho.documents, sekisho.lineages",
        );
        self.sql("CHECKPOINT");
    }

    /// Opens a snapshot in a session of its own.
    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &self.database]);
        psql.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = psql.spawn().context("psql, of PostgreSQL's client")?;
        let stdin = child.stdin.as_mut().context("it is piped")?;
        writeln!(stdin, "{SNAPSHOT}")?;
        let begun = Instant::now();
        while self.sql(IS_OPEN).trim() != "1" {
            ensure!(
                begun.elapsed() < PATIENCE,
                "psql did not open a transaction within {PATIENCE:?}"
            );
        }
        Ok(Snapshot(child))
    }

    fn sql(&self, sql: &str) -> String {
        let path = self.database.rsplit('/').next().unwrap_or_default();
        let database = path.split('?').next().unwrap_or_default();
        self.server.sql(database, sql)
    }
}

/// Opens a catalog, whose connections the current runtime drives.
pub(super) fn open(url: &str) -> Result<Arc<Postgres>> {
    let url = Url::parse(url, Path::new("/")).map_err(|why| anyhow!(why))?;
    let options = Options {
        mode: Mode::Create,
        ..Options::default()
    };
    let postgres = Postgres::new(&url, &options, &Handle::current())?;
    Ok(Arc::new(postgres))
}

/// Session with an open snapshot.
pub(super) struct Snapshot(Child);

impl Snapshot {
    /// Ends the session, and makes sure that the snapshot was open until now.
    pub(super) fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait()?;
        ensure!(status.success(), "the snapshot ended early: {status}");
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn ring() -> KeyRing {
    KeyRing::new(MasterKey::new(&[1; 32]))
}

/// Name of a host.
pub(super) fn host(number: u64) -> String {
    format!("shop-{number:08}.t{}.test", number % TENANTS)
}

/// Number of the credential of a host.
pub(super) fn credential(number: u64, hosts: u64) -> u64 {
    number % (hosts / HOSTS_PER_CREDENTIAL)
}

const TENANTS: u64 = 1000;

/// Credentials that nobody opens: each has bytes of its own, as many as an ECDSA one.
const CREDENTIALS: &str = "
INSERT INTO sekisho.issuers (digest, chain) VALUES ('\\x00', '\\x3003020101');
INSERT INTO sekisho.credentials (id, version, key_type, leaf, issuer, key_id, nonce, key,
    not_before, not_after)
SELECT n, 0, 'ecdsa', decode(repeat(md5(n::text), 32), 'hex'), 1, 1,
    decode(left(md5(n::text), 24), 'hex'), decode(repeat(md5(n::text), 9), 'hex'),
    0, 9999999999
FROM generate_series(0, $COUNT - 1) n";

/// As [`host`] and [`credential`] have it.
const HOSTS: &str = "
INSERT INTO sekisho.hosts (pattern, parent, tenant, tls, disabled, ecdsa, version)
SELECT 'shop-' || lpad(n::text, 8, '0') || '.t' || n % 1000 || '.test',
    't' || n % 1000 || '.test', 't' || n % 1000, '1.2', false, n % $CREDENTIALS, 0
FROM generate_series($FIRST, $LAST) n";
/// Hosts of one statement.
const CHUNK: usize = 1_000_000;

const SNAPSHOT: &str = "SET application_name = 'snapshot';
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sekisho.meta;";
const IS_OPEN: &str = "SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'snapshot' AND state = 'idle in transaction' AND backend_xmin IS NOT NULL";
/// Longest wait for a session.
const PATIENCE: Duration = Duration::from_secs(30);
