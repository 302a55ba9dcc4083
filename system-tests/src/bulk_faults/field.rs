//! Store that is imported into, a server on it, and commands of the binary.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sekisho_bench::load::client::Client;
use sekisho_bench::open_catalog;
use sekisho_bench::tls::{Group, Offer, Trust, Version};
use sekisho_certs::seal::{KeySource, Sealer};
use sekisho_certs::store::{DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{HostFilter, HostPattern};
use sekisho_testkit::services::Postgres;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::server::Server;

/// Store and server. Dropping it ends the server, and removes all.
pub(super) struct Field {
    server: Server,
    binary: PathBuf,
    folder: TempDir,
    url: String,
    _postgres: Option<Postgres>,
}

impl Field {
    pub(super) fn sqlite(binary: &Path) -> Result<Self> {
        let folder = folder()?;
        let url = format!("sqlite:{}/hosts.db", folder.path().display());
        Self::new(binary, folder, url, None)
    }

    /// Starts a PostgreSQL. The test kit panics if it is not installed, and says what to
    /// install.
    pub(super) fn postgres(binary: &Path) -> Result<Self> {
        let postgres = Postgres::start();
        let url = postgres.database();
        Self::new(binary, folder()?, url, Some(postgres))
    }

    fn new(
        binary: &Path,
        folder: TempDir,
        url: String,
        postgres: Option<Postgres>,
    ) -> Result<Self> {
        let binary = fs::canonicalize(binary).with_context(|| binary.display().to_string())?;
        let config = format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\n[store]\nurl = \"{url}\"\n\
             [keys]\nmaster = \"file:master.key\"\n[server]\nworkers = 1\n"
        );
        fs::write(folder.path().join("sekisho.toml"), config)?;
        Ok(Self {
            server: Server::new(&binary, folder.path().to_owned()),
            binary,
            folder,
            url,
            _postgres: postgres,
        })
    }

    /// Returns the folder of the source.
    pub(super) fn pairs(&self) -> PathBuf {
        self.folder.path().join(PAIRS)
    }

    /// Starts the server.
    pub(super) async fn serve(&self) -> Result<()> {
        self.server.start().await
    }

    /// Makes a client of the server, which trusts this CA alone.
    pub(super) fn client(&self, root: &str) -> Result<Client> {
        let file = self.folder.path().join("ca.pem");
        fs::write(&file, root)?;
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Authority(file),
            resume: None,
        };
        let (address, _) = self.server.serving().context("it serves")?;
        Client::new(address, &offer, DEADLINE)
    }

    /// Begins to import the source, with more options.
    pub(super) fn begin(&self, more: &[&str]) -> Result<Child> {
        let log = File::create(self.log())?;
        let mut command = Command::new(&self.binary);
        command
            .args(["cert", "import", PAIRS, "--layout", "flat"])
            .args(["--origin", PAIRS])
            .args(more)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        Ok(command.spawn()?)
    }

    /// Imports the source to the end.
    pub(super) async fn import(&self, more: &[&str]) -> Result<()> {
        let status = timeout(PATIENCE, self.begin(more)?.wait()).await;
        let status = status.context("an import does not end")??;
        ensure!(status.success(), "{status}: {}", self.said());
        Ok(())
    }

    /// Returns what the last import has said.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("import.log")
    }

    /// Opens the catalog with its key.
    pub(super) async fn sealer(&self) -> Result<Sealer> {
        let keys = KeySource::parse("file:master.key", self.folder.path())?.load()?;
        Ok(Sealer::open(open_catalog(&self.url)?, keys).await?)
    }

    /// Removes the lease of a watcher that was killed, which else lasts for ten minutes.
    pub(super) async fn end_lease(&self, sealer: &Sealer) -> Result<()> {
        let name = format!("import-watch/{PAIRS}");
        let id = DocumentId::new(DocumentKind::LEASE, name);
        sealer
            .write(vec![Write::RemoveDocument(id, Precondition::Any)])
            .await?;
        Ok(())
    }
}

/// Lists all hosts of a catalog that have a certificate.
pub(super) async fn stored(sealer: &Sealer) -> Result<Vec<String>> {
    let (filter, mut after) = (HostFilter::default(), None::<HostPattern>);
    let mut hosts = Vec::new();
    loop {
        let page = sealer
            .catalog()
            .list_hosts(&filter, after.as_ref(), PAGE)
            .await?;
        let served = page.hosts.iter().filter(|host| !host.references.is_empty());
        hosts.extend(served.map(|host| host.pattern.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            return Ok(hosts);
        }
    }
}

/// Waits for a time. Tells whether a process still runs then: one that ended must have
/// succeeded.
pub(super) async fn runs_for(child: &mut Child, time: Duration) -> Result<bool> {
    tokio::select! {
        ended = child.wait() => {
            let status = ended?;
            ensure!(status.success(), "it ended by itself with {status}");
            Ok(false)
        }
        () = sleep(time) => Ok(true),
    }
}

fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("sekisho-bulk-").tempdir()?)
}

/// Folder of the source, and its name in the records.
const PAIRS: &str = "pairs";
/// Rows of a page.
const PAGE: usize = 1000;
const DEADLINE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
