//! Folder with certificates, stores and logs, which the next comparison uses
//! again.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;
use tokio::process::Command;
use tokio::time::timeout;

use super::codings;
use super::hanging::Hanging;
use super::options::{Binary, Options};
use super::rows::{Content, Texts};
use super::sekisho::{Copies, Sekisho, Store};
use super::server::{LARGE_FILE, PAGE_SIZE, PROGRAM};
use super::services::Remote;
use super::tied;
use crate::fixtures::{self, Folder, KeyKind};
use crate::upstream::LARGE;

#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot make {}", root.display()))?;
        let workspace = Self {
            root: root.canonicalize()?,
        };
        fs::create_dir_all(workspace.site())?;
        fs::create_dir_all(workspace.php())?;
        write_program(&workspace.programs())?;
        fs::create_dir_all(workspace.log(""))?;
        fs::write(workspace.site().join("index.html"), page())?;
        codings::write(&workspace.site())?;
        // Without blocks on the disk: its pages are read as zeros.
        let large = fs::File::create(workspace.site().join(&LARGE_FILE[1..]))?;
        large.set_len(LARGE as u64)?;
        Ok(workspace)
    }

    /// Returns the bytes that are left where the folder lies.
    pub(crate) fn free_space(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&self.root)?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// Returns the bytes on the disk that the folder takes.
    pub(crate) fn held_space(&self) -> Result<u64> {
        held_space(&self.root)
    }

    pub(crate) fn site(&self) -> PathBuf {
        self.root.join("site")
    }

    /// Returns the folder of the script, and of php-fpm's files.
    pub(crate) fn php(&self) -> PathBuf {
        self.root.join("php")
    }

    /// Returns the folder of the CGI program. Nothing else lies in it: no root of files may
    /// hold programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("cgi")
    }

    /// Returns the files of servers that are measured while a file system hangs.
    pub(crate) fn hanging(&self) -> Hanging {
        Hanging(self.root.join("hanging"))
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(name)
    }

    pub(crate) fn fixture(&self, key: KeyKind, hosts: usize) -> PathBuf {
        let name = format!("{}-{hosts}", key.name());
        self.root.join("fixtures").join(name)
    }

    /// Returns the folder of a SQLite store. A baseline has its own: its schema may
    /// differ.
    pub(crate) fn catalog(&self, binary: Binary, key: KeyKind, hosts: usize) -> PathBuf {
        let name = match binary {
            Binary::Measured | Binary::Trained => format!("{}-{hosts}", key.name()),
            Binary::Baseline => format!("{}-{hosts}-baseline", key.name()),
        };
        self.root.join("catalogs").join(name)
    }

    /// Returns the folder of a SQLite store whose host records have sites.
    pub(crate) fn sites(&self, hosts: usize, content: Content) -> PathBuf {
        let name = match content {
            Content::Files | Content::Roots => format!("roots-{hosts}"),
            Content::Upstreams(count) => format!("upstreams-{count}-{hosts}"),
            Content::Tenants => format!("tenants-{hosts}"),
            Content::Scripts { keep: false } => format!("scripts-{hosts}"),
            Content::Scripts { keep: true } => format!("kept-scripts-{hosts}"),
            Content::Password => format!("password-{hosts}"),
            Content::Texts(Texts::Precompressed) => format!("precompressed-{hosts}"),
            Content::Texts(Texts::Compressed) => format!("compressed-{hosts}"),
            Content::Texts(Texts::Proxied) => format!("proxied-texts-{hosts}"),
            Content::Programs(_) => format!("programs-{hosts}"),
        };
        self.root.join("catalogs").join(name)
    }

    /// Makes an empty folder for the files of one server.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("run").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Makes certificates unless an earlier run did.
    pub(crate) async fn prepare_fixture(&self, key: KeyKind, hosts: usize) -> Result<()> {
        let options = fixtures::Options {
            dir: self.fixture(key, hosts),
            hosts,
            key,
            pool: None,
        };
        let begin = Instant::now();
        let made = tokio::task::spawn_blocking(move || fixtures::prepare(&options)).await??;
        if made {
            let seconds = begin.elapsed().as_secs_f64();
            eprintln!("made {hosts} {} certificates in {seconds:.1} s", key.name());
        }
        Ok(())
    }

    /// Fills a SQLite store with the command, as an operator would.
    pub(crate) async fn prepare_catalog(
        &self,
        options: &Options,
        binary: Binary,
        key: KeyKind,
        hosts: usize,
    ) -> Result<()> {
        let sekisho = options.program(binary);
        let folder = self.catalog(binary, key, hosts);
        let config = folder.join("sekisho.toml");
        let marker = folder.join("imported");
        if marker.exists() {
            let log = self.log(&format!("check-{}-{hosts}.log", key.name()));
            let check = command(sekisho, &config, &["check"], &log)?;
            if run(check, CHECK_BOUND).await.is_ok() {
                return Ok(());
            }
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let seconds = self.import(sekisho, key, hosts, &folder, None).await?;
        ensure!(
            folder.join("hosts.db").exists(),
            "the import into {} made no store",
            folder.display()
        );
        Ok(fs::write(marker, format!("{seconds:.1}\n"))?)
    }

    /// Fills an empty database; returns the folder of its master key.
    pub(crate) async fn import_into(
        &self,
        options: &Options,
        binary: Binary,
        key: KeyKind,
        hosts: usize,
        url: &str,
    ) -> Result<PathBuf> {
        let folder = self.scratch(match binary {
            Binary::Measured => "postgres",
            Binary::Trained => "postgres-trained",
            Binary::Baseline => "postgres-baseline",
        })?;
        let sekisho = options.program(binary);
        let remote = Remote {
            url: url.to_owned(),
            master_key: Some(folder.join("master.key")),
        };
        self.import(sekisho, key, hosts, &folder, Some(remote))
            .await?;
        Ok(folder)
    }

    /// Imports the hosts into the remote store, or into SQLite in this folder.
    /// Returns the seconds that it took.
    async fn import(
        &self,
        sekisho: &Path,
        key: KeyKind,
        hosts: usize,
        folder: &Path,
        remote: Option<Remote>,
    ) -> Result<f64> {
        let fixture = self.fixture(key, hosts);
        let store = remote
            .as_ref()
            .map_or(Store::Sqlite, |_| Store::Postgres(Copies::Kept));
        let config = Sekisho {
            fixture: Folder(&fixture),
            store,
            memory: "64MiB",
            site: &self.site(),
            php: &self.php(),
            programs: None,
            catalog: folder,
            remote,
            redis_cache: None,
            address: super::server::free_address()?,
            admin: None,
            proxies: false,
            hook: String::new(),
            is_patient: false,
            workers: 1,
        };
        let file = folder.join("sekisho.toml");
        fs::write(&file, config.config())?;
        let log = self.log(&format!("import-{store:?}-{}-{hosts}.log", key.name()));
        let begin = Instant::now();
        let mut import = command(sekisho, &file, &["cert", "import"], &log)?;
        import.arg("--dir").arg(Folder(&fixture).hosts());
        import.args(["--layout", "flat"]);
        run(import, IMPORT_BOUND)
            .await
            .with_context(|| format!("the import failed; it wrote {}", log.display()))?;
        let seconds = begin.elapsed().as_secs_f64();
        let key = key.name();
        eprintln!("imported {hosts} {key} hosts into {store:?} in {seconds:.1} s");
        Ok(seconds)
    }
}

/// Counts blocks instead of sizes: some files are sparse.
fn held_space(folder: &Path) -> Result<u64> {
    let mut held = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        held += metadata.blocks() * 512;
        if metadata.is_dir() {
            held += held_space(&entry.path())?;
        }
    }
    Ok(held)
}

fn command(sekisho: &Path, config: &Path, arguments: &[&str], log: &Path) -> Result<Command> {
    let log = fs::File::create(log)?;
    let mut command = Command::from(tied::command());
    command
        .arg(sekisho)
        .arg("--config")
        .arg(config)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}

/// Returns the folder of a run that names none. Root's checkout may lie where no other user may
/// enter, as in `/root`, and Apache's children are not root.
pub(crate) fn usual() -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    if geteuid().is_root() && !may_be_entered(&here) {
        return OUTSIDE.into();
    }
    INSIDE.into()
}

/// Returns whether all users may enter a folder and those that it lies in.
fn may_be_entered(folder: &Path) -> bool {
    let mode = |folder: &Path| folder.metadata().map_or(0, |found| found.mode());
    folder.ancestors().all(|folder| mode(folder) & 0o001 != 0)
}

async fn run(mut command: Command, bound: Duration) -> Result<()> {
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.as_std().get_program()))?;
    let status = timeout(bound, child.wait())
        .await
        .with_context(|| format!("not done after {} s", bound.as_secs()))??;
    if !status.success() {
        bail!("ended with {status}");
    }
    Ok(())
}

/// Writes the CGI program. Others than the owner may not write it, or it does not run.
fn write_program(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let (_, name) = PROGRAM.rsplit_once('/').context("a path has a slash")?;
    let program = folder.join(name);
    fs::write(&program, PROGRAM_TEXT)?;
    for path in [folder, &program] {
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Returns a page of 612 bytes, the size of nginx's own welcome page.
fn page() -> String {
    let head = "<!DOCTYPE html><title>A page to measure with</title>\n";
    format!("{head:x<width$}\n", width = PAGE_SIZE - 1)
}

const INSIDE: &str = "target/bench";
/// Root's own: no other user can have made it before.
const OUTSIDE: &str = "/var/cache/sekisho-bench";

/// Program that starts nothing: `printf` is part of the shell.
const PROGRAM_TEXT: &str = "#!/bin/sh\n\
    printf 'Content-Type: text/plain\\r\\nContent-Length: 6\\r\\n\\r\\nhello\\n'\n";
const CHECK_BOUND: Duration = Duration::from_secs(20);
/// Longest import: a million pairs, each checked and sealed, on a slow disk.
const IMPORT_BOUND: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_files_take_no_space() {
        let folder = tempfile::tempdir().unwrap();
        let nested = folder.path().join("a");
        fs::create_dir(&nested).unwrap();
        fs::write(nested.join("full"), [1; 100_000]).unwrap();
        let sparse = fs::File::create(nested.join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let held = held_space(folder.path()).unwrap();
        assert!((100_000..1 << 20).contains(&held), "{held}");
    }

    #[test]
    fn a_folder_in_a_closed_one_may_not_be_entered() {
        let closed = tempfile::tempdir().unwrap();
        let folder = closed.path().join("sekisho");
        fs::create_dir(&folder).unwrap();
        for (mode, is_open) in [(0o711, true), (0o700, false), (0o750, false)] {
            fs::set_permissions(closed.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(may_be_entered(&folder), is_open, "{mode:o}");
        }
    }

    #[test]
    fn the_page_has_its_size() {
        assert_eq!(page().len(), PAGE_SIZE);
    }
}
