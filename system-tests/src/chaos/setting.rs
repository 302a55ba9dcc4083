//! The folder of a run: configurations, certificates, a file to download.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::authority::Authority;
use super::field::Names;
use super::plan::SERVERS;
use super::writer::{Commands, WRITERS, command};

/// Folder of a run, removed when dropped.
pub(crate) struct Setting {
    folder: TempDir,
    binary: PathBuf,
    store: String,
    redis: String,
}

impl Setting {
    pub(crate) fn new(binary: &Path, database: &str, redis: &str, fresh: Duration) -> Result<Self> {
        let setting = Self {
            folder: tempfile::Builder::new()
                .prefix("sekisho-chaos-")
                .tempdir()?,
            binary: fs::canonicalize(binary).with_context(|| binary.display().to_string())?,
            store: database.to_owned(),
            redis: redis.to_owned(),
        };
        for folder in setting.folders() {
            fs::create_dir(&folder)?;
            fs::write(folder.join("sekisho.toml"), setting.config(fresh))?;
        }
        let large = setting.path("large");
        fs::create_dir(&large)?;
        fs::File::create(large.join("index.html"))?.set_len(LARGE)?;
        Ok(setting)
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(crate) fn server(&self, number: usize) -> PathBuf {
        self.path(&format!("server{number}"))
    }

    pub(crate) fn commands(&self, writer: usize) -> Commands {
        Commands {
            binary: self.binary.clone(),
            folder: self.path(&format!("writer{writer}")),
        }
    }

    /// Stores the certificates of all these hosts, and the host of the large
    /// file.
    pub(crate) async fn fill(&self, names: &Names, authority: &Authority) -> Result<()> {
        let pairs = self.path("pairs");
        fs::create_dir(&pairs)?;
        let all = [&names.steady, &names.changing, &names.cold];
        for host in all
            .into_iter()
            .flatten()
            .map(String::as_str)
            .chain([DOWNLOADS])
        {
            let pair = authority.issue(host, 0)?;
            fs::write(pairs.join(format!("{host}.crt")), pair.chain)?;
            fs::write(pairs.join(format!("{host}.key")), pair.key)?;
        }
        self.run(&["cert", "import", "--dir", "../pairs"]).await?;
        self.run(&["host", "set", DOWNLOADS, "--root", "../large"])
            .await?;
        Ok(())
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Vec<u8>> {
        let output = command(&self.binary, &self.path("writer0"), args)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<_> = said.lines().take(LINES).collect();
        ensure!(
            output.status.success(),
            "sekisho {}: {}",
            args.join(" "),
            said.join("\n")
        );
        Ok(output.stdout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn folders(&self) -> Vec<PathBuf> {
        let servers = (0..SERVERS).map(|number| self.server(number));
        let writers = (0..WRITERS).map(|number| self.commands(number).folder);
        servers.chain(writers).collect()
    }

    /// Returns the configuration of a server. One worker limits each server to
    /// one core. All clients come from one prefix, hence the high
    /// `absent_per_prefix`.
    fn config(&self, fresh: Duration) -> String {
        format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\n[store]\nurl = \"{}\"\n\
             [keys]\nmaster = \"file:{}\"\n[cache]\nredis = \"{}\"\nfresh = \"{}ms\"\n\
             [site]\nredirect = \"https://elsewhere.test/of/{{host}}\"\n\
             [sites]\nallow = [\"{}\"]\n\
             [server]\nworkers = 1\nabsent_per_prefix = 1000000\n",
            self.store,
            self.path("master.key").display(),
            self.redis,
            fresh.as_millis(),
            self.path("large").display(),
        )
    }
}

pub(crate) fn names() -> Names {
    let named = |kind: &str, count: usize| {
        let name = |number| format!("{kind}{number}.chaos.test");
        (0..count).map(name).collect()
    };
    Names {
        steady: named("steady", 200),
        changing: named("changing", 60),
        cold: named("cold", 2000),
    }
}

/// Host whose page is the large file.
pub(crate) const DOWNLOADS: &str = "downloads.chaos.test";
/// More than the buffers of all sockets between server and client hold.
const LARGE: u64 = 32 << 20;
/// Lines of a command's error text that are shown.
const LINES: usize = 5;
