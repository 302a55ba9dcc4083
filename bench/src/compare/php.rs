//! php-fpm on the client's core, behind the servers of rows with scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::server::terminate;
use super::tied;

/// Running php-fpm with one pool. Dropping it ends the process and its children.
#[derive(Debug)]
pub(crate) struct Php {
    process: Child,
}

impl Php {
    /// Starts a pool of [`CHILDREN`] whose socket lies in this folder.
    pub(crate) async fn start(folder: &Path, core: usize) -> Result<Self> {
        fs::write(folder.join("index.html"), SCRIPT)?;
        let (config, socket) = (folder.join("fpm.conf"), socket(folder));
        fs::write(&config, text(folder))?;
        let _ = fs::remove_file(&socket);
        let log = fs::File::create(folder.join("fpm.log"))?;
        let process = tied::command_on(core)
            .arg(program()?)
            .args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot run setpriv")?;
        let begun = Instant::now();
        while UnixStream::connect(&socket).await.is_err() {
            ensure!(
                begun.elapsed() < START_BOUND,
                "php-fpm does not start; it wrote {}",
                folder.join("fpm.log").display()
            );
            sleep(Duration::from_millis(10)).await;
        }
        Ok(Self { process })
    }
}

impl Drop for Php {
    /// Sends SIGTERM: children of a master that is killed go on.
    fn drop(&mut self) {
        terminate(&mut self.process);
    }
}

/// Returns the socket of the pool in a folder.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("php.sock")
}

/// Returns the newest php-fpm of Debian's folder.
fn program() -> Result<PathBuf> {
    let folder = Path::new("/usr/sbin");
    let programs = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_fpm = |path: &PathBuf| path.to_string_lossy().contains("php-fpm");
    let newest = programs.filter(is_fpm).max();
    newest.context("there is no php-fpm in /usr/sbin; run `tools/need php`")
}

fn text(folder: &Path) -> String {
    let socket = socket(folder);
    let (folder, socket) = (folder.display(), socket.display());
    format!(
        "[global]\n\
         pid = {folder}/fpm.pid\n\
         error_log = {folder}/fpm.log\n\
         [www]\n\
         user = root\n\
         group = root\n\
         listen = {socket}\n\
         listen.backlog = 511\n\
         pm = static\n\
         pm.max_children = {CHILDREN}\n\
         security.limit_extensions = .html\n"
    )
}

/// Children of the pool: more than the connections that all servers of a row keep together.
const CHILDREN: usize = 64;
/// Script with the name that the clients of all rows ask for: a page of 612 bytes, as the
/// rows of files have it.
const SCRIPT: &str = "<?php header('Content-Length: 612'); \
     echo str_pad(\"<!DOCTYPE html><title>A page to measure with</title>\\n\", 611, 'x'), \"\\n\";\n";
const START_BOUND: Duration = Duration::from_secs(10);
