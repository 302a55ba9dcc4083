//! Store that is imported into, and two servers on it.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sekisho_bench::accounting::peak_resident;
use sekisho_bench::open_catalog;
use sekisho_bench::server::Server;
use sekisho_certs::Catalog;
use sekisho_certs::seal::{KeySource, Sealer};
use sekisho_testkit::services;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::sleep;

/// Store with its servers. Dropping it ends them, and removes what they stored.
pub(super) struct Field {
    pub(super) servers: [Server; 2],
    binary: PathBuf,
    folder: TempDir,
    url: String,
    /// PostgreSQL, if the store is there.
    _postgres: Option<services::Postgres>,
}

/// Result of an import.
pub(super) struct Imported {
    pub(super) took: Duration,
    /// Most bytes that the process had resident.
    pub(super) memory: u64,
    pub(super) imported: u64,
    pub(super) skipped: u64,
}

impl Field {
    /// Makes an empty SQLite store.
    pub(super) fn sqlite(binary: &Path) -> Result<Self> {
        let folder = folder()?;
        let url = format!("sqlite:{}/hosts.db", folder.path().display());
        Self::new(binary, folder, url, None)
    }

    /// Starts a PostgreSQL. The test kit panics if it is not installed, and says what to
    /// install.
    pub(super) fn postgres(binary: &Path) -> Result<Self> {
        let postgres = services::Postgres::start();
        // The test kit's servers don't wait for the disk.
        for setting in ["fsync = on", "max_wal_size = '4GB'"] {
            postgres.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        postgres.sql("postgres", "SELECT pg_reload_conf()");
        let url = postgres.database();
        Self::new(binary, folder()?, url, Some(postgres))
    }

    fn new(
        binary: &Path,
        folder: TempDir,
        url: String,
        postgres: Option<services::Postgres>,
    ) -> Result<Self> {
        let binary = fs::canonicalize(binary).with_context(|| binary.display().to_string())?;
        let path = folder.path();
        let pages = path.join("pages");
        fs::create_dir(&pages)?;
        fs::write(pages.join("index.html"), PAGE)?;
        let config = format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\n\
             [store]\nurl = \"{url}\"\n[keys]\nmaster = \"file:{path}/master.key\"\n\
             [site]\nroot = \"{pages}\"\n[sites]\nallow = [\"{pages}\"]\n\
             [server]\nworkers = 1\n",
            path = path.display(),
            pages = pages.display(),
        );
        let server = |name: &str| {
            let folder = path.join(name);
            fs::create_dir(&folder)?;
            let file = folder.join("sekisho.toml");
            fs::write(&file, &config)?;
            // The configuration holds a password.
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            anyhow::Ok(Server::new(&binary, folder))
        };
        Ok(Self {
            servers: [server(COMMANDS)?, server("second")?],
            binary,
            folder,
            url,
            _postgres: postgres,
        })
    }

    /// Starts both servers.
    pub(super) async fn serve(&self) -> Result<()> {
        for server in &self.servers {
            server.start().await?;
        }
        Ok(())
    }

    /// Returns a folder for pairs, which is not there yet.
    pub(super) fn pairs(&self) -> PathBuf {
        self.folder.path().join("pairs")
    }

    /// Makes a command of the binary, for this store.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .current_dir(self.folder.path().join(COMMANDS))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Imports an archive by standard input, with more options.
    pub(super) async fn import(&self, archive: &Path, more: &[&str]) -> Result<Imported> {
        let import = ["cert", "import", "--layout", "flat", "--json", "-"];
        let mut command = self.command(&[&import[..], more].concat());
        command.stdin(File::open(archive)?);
        let begun = Instant::now();
        let (output, memory) = run(command).await?;
        let took = begun.elapsed();
        ensure!(
            output.status.success(),
            "the import ended with {}",
            output.status
        );
        let counts: Value = serde_json::from_slice(&output.stdout)?;
        let count = |key: &str| counts[key].as_u64().with_context(|| format!("no {key}"));
        Ok(Imported {
            took,
            memory,
            imported: count("imported")?,
            skipped: count("skipped")?,
        })
    }

    /// Opens the catalog, with connections of its own.
    pub(super) fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        open_catalog(&self.url)
    }

    /// Opens the catalog with its key.
    pub(super) async fn sealer(&self) -> Result<Sealer> {
        let keys = KeySource::parse("file:master.key", self.folder.path())?.load()?;
        Ok(Sealer::open(self.catalog()?, keys).await?)
    }
}

/// Runs a command. Returns its output, and the most bytes that it had resident.
pub(super) async fn run(mut command: Command) -> Result<(Output, u64)> {
    let child = command.stdout(Stdio::piped()).spawn()?;
    let (pid, memory) = (child.id().context("it runs")?, Cell::new(0));
    let output = tokio::select! {
        output = child.wait_with_output() => output?,
        never = watch_memory(pid, &memory) => match never {},
    };
    Ok((output, memory.get()))
}

/// Makes a folder below `target`, since the one for temporary files may be in memory.
fn folder() -> Result<TempDir> {
    let target = Path::new("target");
    fs::create_dir_all(target)?;
    let target = fs::canonicalize(target)?;
    Ok(tempfile::Builder::new()
        .prefix("import-")
        .tempdir_in(target)?)
}

/// Reads the most memory that a process has had, again and again.
async fn watch_memory(pid: u32, most: &Cell<u64>) -> Infallible {
    loop {
        // The process may have ended.
        if let Ok(now) = peak_resident(pid) {
            most.set(now.max(most.get()));
        }
        sleep(POLL).await;
    }
}

/// Page of all hosts.
pub(super) const PAGE: &str = "here";
/// Folder of the first server, with whose configuration commands run.
const COMMANDS: &str = "first";
const POLL: Duration = Duration::from_millis(10);
