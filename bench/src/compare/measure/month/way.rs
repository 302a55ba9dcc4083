//! Ways in which a running server gets certificates.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::fixtures::{Folder, host_name};
use sekisho_bench::accounting::{own_cpu, tree};

/// Way of a server. Each call takes until the server serves what was written.
#[derive(Debug)]
pub(super) enum Way {
    /// The product's own command, into the store of a server that looks for changes.
    Import(Import),
    /// Files and blocks of the configuration, which nginx reads again.
    Reload(Reload),
}

impl Way {
    /// Returns the folder in which the next certificates are written.
    pub(super) fn folder(&self) -> Folder<'_> {
        match self {
            Self::Import(import) => Folder(&import.batch),
            Self::Reload(reload) => Folder(&reload.scratch),
        }
    }

    /// Gives the server the certificates that were written. There are so many hosts now.
    ///
    /// # Errors
    /// If the server refuses them; nginx then goes on with what it had.
    pub(super) fn publish(&mut self, hosts: usize, is_over: impl Fn() -> bool) -> Result<()> {
        match self {
            Self::Import(import) => import.run(),
            Self::Reload(reload) => reload.run(hosts, is_over),
        }
    }

    /// Returns the reloads that have ended, and the CPU time of these.
    pub(super) fn reloads(&self) -> (u64, Duration) {
        match self {
            Self::Import(_) => (0, Duration::ZERO),
            Self::Reload(reload) => (reload.done, reload.cpu),
        }
    }
}

#[derive(Debug)]
pub(super) struct Import {
    pub(super) program: PathBuf,
    pub(super) config: PathBuf,
    /// Folder of the certificates of one import.
    pub(super) batch: PathBuf,
    pub(super) log: PathBuf,
}

impl Import {
    fn run(&self) -> Result<()> {
        let pairs = Folder(&self.batch).hosts();
        let log = File::create(&self.log)?;
        let import = Command::new(&self.program)
            .arg("--config")
            .arg(&self.config)
            .args(["cert", "import", "--layout", "flat", "--dir"])
            .arg(&pairs)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status();
        let status = import.with_context(|| format!("cannot run {}", self.program.display()))?;
        let log = self.log.display();
        ensure!(
            status.success(),
            "an import ended with {status}; it wrote {log}"
        );
        fs::remove_dir_all(&pairs)?;
        Ok(fs::create_dir_all(pairs)?)
    }
}

#[derive(Debug)]
pub(super) struct Reload {
    /// Master process.
    pub(super) master: u32,
    pub(super) config: PathBuf,
    /// Folder of all certificates.
    pub(super) scratch: PathBuf,
    /// Log of the server, to which it writes why it refuses a configuration.
    pub(super) log: PathBuf,
    /// Hosts of the configuration.
    pub(super) hosts: usize,
    /// Reloads so far, and the CPU time that the master took for them.
    pub(super) done: u64,
    pub(super) cpu: Duration,
}

impl Reload {
    fn run(&mut self, hosts: usize, is_over: impl Fn() -> bool) -> Result<()> {
        grow(&self.config, self.hosts, hosts)?;
        self.hosts = hosts;
        let before: BTreeSet<u32> = tree(self.master)?.into_iter().collect();
        let cpu = own_cpu(self.master)?;
        let master = i32::try_from(self.master).ok().and_then(Pid::from_raw);
        kill_process(master.context("a process has a number")?, Signal::HUP)?;
        // The master starts a worker when it has read everything, and asks the old one to end.
        // Until then no file may change: the master would meet half of a pair.
        while tree(self.master)?.iter().all(|pid| before.contains(pid)) {
            let said = fs::read_to_string(&self.log)?;
            let fails = |line: &&str| REFUSALS.iter().any(|text| line.contains(text));
            if let Some(line) = said.lines().find(fails) {
                bail!("a reload with {hosts} hosts was refused: {line}");
            }
            if is_over() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        // The old worker still takes connections for 100 ms.
        thread::sleep(TURN);
        self.done += 1;
        self.cpu += own_cpu(self.master)?.saturating_sub(cpu);
        Ok(())
    }
}

/// Adds `server` blocks like the first one to a configuration whose last line closes `http`.
fn grow(config: &Path, from: usize, to: usize) -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(config)?;
    // With many hosts, it has hundreds of megabytes.
    let mut head = vec![0; HEAD];
    let read = file.read(&mut head)?;
    let head = std::str::from_utf8(&head[..read])?;
    let begin = head.find(BLOCK).context("a server has a block")?;
    let length = head[begin..].find("\n    }\n").context("a block ends")?;
    let block = &head[begin..begin + length + "\n    }\n".len()];
    let first = host_name(0);
    let mut text = String::new();
    for number in from..to {
        text += &block.replace(&first, &host_name(number));
    }
    file.seek(SeekFrom::End(-2))?;
    Ok(file.write_all((text + "}\n").as_bytes())?)
}

/// Texts of nginx if it goes on with its old workers.
const REFUSALS: [&str; 2] = ["[emerg]", "fork() failed"];
const BLOCK: &str = "    server {\n";
/// Part of a configuration that holds the first block.
const HEAD: usize = 1 << 14;
/// nginx takes 1 ms per host.
const POLL: Duration = Duration::from_millis(50);
const TURN: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::nginx::{Certificates, Nginx};

    fn config(hosts: usize) -> String {
        let nginx = Nginx {
            workers: 1,
            fixture: Folder(Path::new("/f")),
            certificates: Certificates::Preloaded(hosts),
            site: Path::new("/site"),
            scratch: Path::new("/scratch"),
            address: "127.0.0.1:443".parse().unwrap(),
            file_cache: false,
            upstreams: None,
            scripts: None,
            users: None,
            texts: None,
            http2: false,
            groups: "X25519",
        };
        nginx.config()
    }

    #[test]
    fn a_grown_configuration_is_one_of_more_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.conf");
        fs::write(&file, config(100)).unwrap();
        for (from, to) in [(100, 101), (101, 101), (101, 300)] {
            grow(&file, from, to).unwrap();
            assert!(fs::read_to_string(&file).unwrap() == config(to));
        }
    }

    #[test]
    fn a_refused_configuration_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("server.conf"), folder.path().join("log"));
        fs::write(&file, config(1)).unwrap();
        let mut master = Command::new("sh");
        master.args(["-c", "trap : HUP; echo; while :; do read x; done"]);
        let mut master = master
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The process prints a byte once the signal no longer ends it.
        let ready = master.stdout.as_mut().unwrap().read(&mut [0]).unwrap();
        let mut reload = Reload {
            master: master.id(),
            config: file,
            scratch: folder.path().to_owned(),
            log,
            hosts: 1,
            done: 0,
            cpu: Duration::ZERO,
        };
        // The month is over before it has read the configuration: that is no reload that ended.
        fs::write(&reload.log, "").unwrap();
        reload.run(2, || true).unwrap();
        assert_eq!((reload.done, reload.cpu), (0, Duration::ZERO));
        fs::write(&reload.log, "x [emerg] 1#1: malloc(16384) failed\n").unwrap();
        let error = reload.run(3, || false).unwrap_err().to_string();
        master.kill().unwrap();
        master.wait().unwrap();
        assert_eq!((ready, reload.done), (1, 0));
        assert!(
            error.contains("with 3 hosts was refused: x [emerg]"),
            "{error}"
        );
    }
}
