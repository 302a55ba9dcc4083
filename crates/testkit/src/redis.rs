//! Real Redis or Valkey server of one test.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ca::{Key, TestCa};
use crate::ports::free_port;

/// A `redis-server` on a free port of 127.0.0.1 with a folder of its own. It
/// is killed when dropped; if the test panics, its log is shown.
///
/// With `SEKISHO_TEST_REDIS=valkey` in the environment it is a `valkey-server`.
pub struct RedisServer {
    folder: TempDir,
    args: Vec<String>,
    port: u16,
    /// Arguments with which `redis-cli` connects.
    cli: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// Starts a server with further arguments, such as `["--requirepass",
    /// "sesame"]`, and those that `redis-cli` then needs.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_with(args: &[&str], cli: &[&str]) -> Self {
        Self::start_at("--port", args, cli)
    }

    /// Starts a server on this port, which another process may hold for a while.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_on(port: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_where(folder, "--port", &[], &[], || port)
    }

    /// Starts a server that speaks only TLS, with a certificate of this CA for 127.0.0.1;
    /// the CA's file is `ca.pem` in its folder.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_tls(ca: &TestCa, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pair = ca.issue(&["127.0.0.1", "localhost"], Key::P256);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path.to_str().expect("UTF-8").to_owned()
        };
        let cert = file("tls.crt", &pair.chain_pem());
        let key = file("tls.key", &pair.key_pem());
        let root = file("ca.pem", &ca.root_pem());
        let tls = [
            "--port",
            "0",
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
        ];
        let tls = [&tls[..], &["--tls-ca-cert-file", &root], args].concat();
        let cli = ["--tls", "--cacert", &root, "--cert", &cert, "--key", &key];
        Self::start_in(folder, "--tls-port", &tls, &cli)
    }

    /// Starts a cluster of one node, which serves all slots.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_cluster() -> Self {
        let server = Self::start_cluster_node();
        server.cli(&["cluster", "addslotsrange", "0", "16383"]);
        server.wait_for(&["cluster", "info"], "cluster_state:ok");
        server
    }

    /// Starts a cluster node without slots, which knows no other node.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_cluster_node() -> Self {
        let bus = free_port().to_string();
        Self::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus], &[])
    }

    /// Starts a single sentinel that watches `master` under this name.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_sentinel(master: &Self, name: &str) -> Self {
        Self::start_sentinel_with(master, name, &[], &[])
    }

    /// Starts a server with further lines of its configuration, such as
    /// `"sentinel auth-pass main sesame"`, and what `redis-cli` then needs.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start_sentinel_with(master: &Self, name: &str, lines: &[&str], cli: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sentinel.conf");
        let monitor = format!("sentinel monitor {name} 127.0.0.1 {} 1", master.port);
        let text = [&[&*monitor], lines, &[""]].concat().join("\n");
        fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("UTF-8").to_owned();
        Self::start_in(folder, "--port", &[&file, "--sentinel"], cli)
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of the current process.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Returns the port of the cluster bus.
    ///
    /// # Panics
    /// As [`RedisServer::cli`].
    #[must_use]
    pub fn bus_port(&self) -> String {
        let answer = self.cli(&["config", "get", "cluster-port"]);
        answer.lines().next_back().expect("a port").to_owned()
    }

    /// Returns the path of a file in the server's folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `redis-cli` with these arguments; returns its output.
    ///
    /// # Panics
    /// If it fails, or the server answers with an error.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = self.run_cli(args);
        let out = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "redis-cli {args:?}: {out}{error}");
        out
    }

    /// Sets a key.
    ///
    /// # Panics
    /// As [`RedisServer::cli`].
    pub fn set(&self, key: &str, value: &str) {
        assert_eq!(self.cli(&["set", key, value]), "OK");
    }

    /// Waits until a command's output contains this text.
    ///
    /// # Panics
    /// If it does not in the end.
    pub fn wait_for(&self, args: &[&str], text: &str) {
        let begun = Instant::now();
        while !self.cli(args).contains(text) {
            assert!(begun.elapsed() < START_TIMEOUT, "{args:?}: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Pauses the process: it accepts, and never answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Shuts the server down; its port and folder stay.
    ///
    /// # Panics
    /// If it does not run.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            child.wait().expect("it is a child");
        }
    }

    /// Kills the server; its port and folder stay.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again on its port, after [`RedisServer::stop`] or
    /// [`RedisServer::kill`].
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.spawn(), "redis-server: {}", self.log());
    }

    fn start_at(port: &str, args: &[&str], cli: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_in(folder, port, args, cli)
    }

    fn start_in(folder: TempDir, option: &str, args: &[&str], cli: &[&str]) -> Self {
        Self::start_where(folder, option, args, cli, free_port)
    }

    /// Another process may take the port first: then the next one is tried.
    fn start_where(
        folder: TempDir,
        option: &str,
        args: &[&str],
        cli: &[&str],
        next_port: impl Fn() -> u16,
    ) -> Self {
        let mut server = Self {
            folder,
            args: Vec::new(),
            port: 0,
            cli: cli.iter().map(ToString::to_string).collect(),
            child: None,
        };
        for _ in 0..MAX_ATTEMPTS {
            server.port = next_port();
            let port = server.port.to_string();
            let own = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
            // Only the first argument may be a file.
            let all = [args, &own, &[option, &port]].concat();
            server.args = all.iter().map(ToString::to_string).collect();
            if server.spawn() {
                return server;
            }
            server.kill();
        }
        panic!("redis-server does not start: {}", server.log());
    }

    /// Starts the process; returns whether it answers before the timeout.
    fn spawn(&mut self) -> bool {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"));
        let log = log.expect("a file");
        let program = program("server");
        let child = Command::new(&program)
            .args(&self.args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log)
            .spawn();
        self.child = Some(child.unwrap_or_else(|error| {
            panic!("{program}: {error}; install it: apt-get install {program}")
        }));
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            let output = self.run_cli(&["ping"]);
            if output.stdout.starts_with(b"PONG") {
                return true;
            }
            let child = self.child.as_mut().expect("it was just started");
            if child.try_wait().expect("it is a child").is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn run_cli(&self, args: &[&str]) -> Output {
        let program = program("cli");
        let output = Command::new(&program)
            .args(["-e", "-p", &self.port.to_string()])
            .args(&self.cli)
            .args(args)
            .stdin(Stdio::null())
            .output();
        output.unwrap_or_else(|error| panic!("{program}: {error}; run `make deps`"))
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a child has an id"), signal).expect("it runs");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("redis-server on port {}:\n{}", self.port, self.log());
        }
    }
}

/// Returns the program's name: Redis, or Valkey if the environment says so.
fn program(role: &str) -> String {
    let family = match env::var("SEKISHO_TEST_REDIS").as_deref() {
        Err(_) | Ok("" | "redis") => "redis",
        Ok("valkey") => "valkey",
        Ok(other) => panic!("SEKISHO_TEST_REDIS is redis or valkey, not {other:?}"),
    };
    format!("{family}-{role}")
}

const MAX_ATTEMPTS: usize = 5;
/// Longest start; far more than a start takes.
const START_TIMEOUT: Duration = Duration::from_secs(20);
