//! php-fpm with pools of a test's own.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use super::process::{Process, write};
use super::reaper::Reaper;
use super::until;

/// php-fpm, whose master runs as this user and its pools as theirs.
pub struct PhpFpm {
    folder: PathBuf,
    sockets: Vec<PathBuf>,
    process: Option<Process>,
    _reaper: Reaper,
}

/// Pool of one tenant.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Name, also in the log.
    pub name: String,
    /// Number of the user and the group that scripts run as, if this process is root. No
    /// such user needs to exist.
    pub user: u32,
    /// Unix socket, which only the user of this process may connect to.
    pub socket: PathBuf,
    /// `pm.max_children`; all are started at once.
    pub children: u32,
    /// Values of php.ini that scripts can't change.
    pub values: Vec<(&'static str, String)>,
}

impl PhpFpm {
    /// Starts php-fpm with these pools, and waits until they can be connected to.
    ///
    /// # Panics
    /// If php-fpm is not installed, or does not start.
    #[must_use]
    pub fn start(pools: &[Pool]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sekisho-php-fpm-")
            .tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        write(&folder, "php-fpm.conf", &config(&folder, pools));
        let mut php = Self {
            folder,
            sockets: pools.iter().map(|pool| pool.socket.clone()).collect(),
            process: None,
            _reaper: reaper,
        };
        php.begin();
        php
    }

    /// Ends it with all its children, and starts it again.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.end();
        self.begin();
    }

    /// Ends it with all its children.
    pub fn end(&mut self) {
        if let Some(process) = self.process.take() {
            process.terminate();
        }
    }

    /// Starts it after [`PhpFpm::end`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn begin(&mut self) {
        let mut command = Command::new(program());
        command.args(["--nodaemonize", "--fpm-config"]);
        command.arg(self.folder.join("php-fpm.conf"));
        // All pools share one cache of compiled scripts. Without this, each pool can include
        // other tenants' scripts, whoever may read them.
        command.args(["-d", "opcache.validate_permission=1"]);
        self.process = Some(Process::spawn(&mut command, &self.folder, "php-fpm"));
        until("php-fpm starts", &self.folder.join("errors"), || {
            let mut sockets = self.sockets.iter();
            sockets.all(|socket| UnixStream::connect(socket).is_ok())
        });
    }

    /// Returns what the master has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("errors")).unwrap_or_default()
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        self.end();
    }
}

fn config(folder: &Path, pools: &[Pool]) -> String {
    let at = folder.display();
    let global = format!(
        "[global]\npid = {at}/master.pid\nerror_log = {at}/errors\nprocess_control_timeout = 1s\n"
    );
    let pools = pools.iter().map(Pool::section);
    [global].into_iter().chain(pools).collect()
}

impl Pool {
    fn section(&self) -> String {
        let Self {
            name,
            user,
            socket,
            children,
            values,
        } = self;
        let socket = socket.display();
        // What a child writes to standard error goes to the server, not into the log.
        let mut text = format!(
            "[{name}]\nlisten = {socket}\nlisten.mode = 0600\nlisten.backlog = 511\npm = static\n\
             pm.max_children = {children}\ncatch_workers_output = no\nclear_env = yes\n"
        );
        if geteuid().is_root() {
            text += &format!("user = {user}\ngroup = {user}\n");
        }
        for (key, value) in values {
            text += &format!("php_admin_value[{key}] = {value}\n");
        }
        text
    }
}

/// Returns the path of php-fpm, whose name has Debian's version of PHP.
fn program() -> PathBuf {
    let programs = fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let mut programs: Vec<_> = programs
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/php-fpm"))
        .collect();
    programs.sort();
    programs
        .pop()
        .expect("there is no php-fpm; install php-fpm, or run `make deps`")
}
