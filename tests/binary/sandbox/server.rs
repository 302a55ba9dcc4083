//! Running `sekisho serve`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustls::ClientConfig;
use sekisho_testkit::client;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::{ca, until};

/// Killed when dropped.
pub(crate) struct Server {
    child: Child,
    log: Arc<Mutex<Vec<Value>>>,
    pub(crate) https: SocketAddr,
    pub(crate) http: SocketAddr,
    admin: Admin,
    runtime: Runtime,
}

/// Address of the admin listener.
enum Admin {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Server {
    /// Waits for the line that names the addresses.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let log = Arc::default();
        follow(child.stderr.take().expect("it is piped"), Arc::clone(&log));
        let serving = serving(&mut child, &log);
        let address = |key: &str| {
            let text = serving["fields"][key].as_str().expect(key);
            let parsed = text.parse::<SocketAddr>();
            parsed.unwrap_or_else(|error| panic!("{key} {text:?}: {error}"))
        };
        let admin = serving["fields"]["admin"].as_str().expect("admin");
        Self {
            https: address("https"),
            http: address("http"),
            admin: match admin.strip_prefix("unix:") {
                Some(path) => Admin::Unix(path.into()),
                None => Admin::Tcp(address("admin")),
            },
            child,
            log,
            runtime: Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the TCP address of the admin listener.
    pub(crate) fn admin(&self) -> SocketAddr {
        match self.admin {
            Admin::Tcp(address) => address,
            Admin::Unix(_) => panic!("the admin listener is a Unix socket"),
        }
    }

    /// Returns the log so far, one JSON object per line.
    pub(crate) fn log(&self) -> String {
        let lines: Vec<_> = lock(&self.log).iter().map(Value::to_string).collect();
        lines.join("\n")
    }

    /// Returns the lines that were logged so far. While they are locked, no
    /// thread reads the pipe, which fills up.
    pub(crate) fn log_lines(&self) -> Arc<Mutex<Vec<Value>>> {
        Arc::clone(&self.log)
    }

    /// Fetches this host's page: head and body, or the error.
    pub(crate) fn fetch(&self, host: &str) -> io::Result<String> {
        self.fetch_with(host, client::config(ca()))
    }

    pub(crate) fn fetch_with(&self, host: &str, config: ClientConfig) -> io::Result<String> {
        let fetch = client::fetch(self.https, host, "/", config);
        self.runtime
            .block_on(async { tokio::time::timeout(ANSWER, fetch).await })
            .expect("an answer in time")
    }

    /// Returns whether this host's page contains this text.
    pub(crate) fn shows(&self, host: &str, text: &str) -> bool {
        self.fetch(host)
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.contains(text))
    }

    /// Returns the error text of a failed handshake for this host.
    pub(crate) fn refusal(&self, host: &str) -> String {
        match self.fetch(host) {
            Ok(answer) => panic!("{host} was answered: {answer}"),
            Err(error) => error.to_string(),
        }
    }

    /// Returns the admin listener's answer, head and body.
    pub(crate) fn ask(&self, path: &str) -> String {
        match &self.admin {
            Admin::Tcp(address) => plain(*address, "127.0.0.1", path),
            Admin::Unix(socket) => exchange(
                UnixStream::connect(socket).expect("it listens"),
                "localhost",
                path,
            ),
        }
    }

    /// Returns the answer over plain HTTP, head and body.
    pub(crate) fn fetch_plain(&self, host: &str, path: &str) -> String {
        plain(self.http, host, path)
    }

    /// Returns the value of a metric by its name and labels; None if it is
    /// missing.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = self.ask("/metrics");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.find_map(|rest| rest.strip_prefix(' '))?;
        Some(value.trim().parse().expect("a number"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a child has an id"), signal).expect("it runs");
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is a child")
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the server ends", ANSWER, || self.has_ended().is_some());
        self.has_ended().expect("it just did")
    }

    /// Ends the server as an operator does, and waits.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.ended();
        if !status.success() {
            // The last lines are still read.
            thread::sleep(Duration::from_millis(200));
        }
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plain(address: SocketAddr, host: &str, path: &str) -> String {
    exchange(TcpStream::connect(address).expect("it listens"), host, path)
}

fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn follow(stderr: ChildStderr, log: Arc<Mutex<Vec<Value>>>) {
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            lock(&log).push(value);
        }
    });
}

fn serving(child: &mut Child, log: &Mutex<Vec<Value>>) -> Value {
    let find = || {
        let lines = lock(log);
        let is_start = |line: &&Value| line["fields"]["message"] == "serving";
        lines.iter().find(is_start).cloned()
    };
    until("the server starts", ANSWER, || {
        let ended = child.try_wait().expect("it is a child");
        assert!(
            ended.is_none() || find().is_some(),
            "{ended:?}: {:?}",
            lock(log)
        );
        find().is_some()
    });
    find().expect("it was just found")
}

fn lock(log: &Mutex<Vec<Value>>) -> MutexGuard<'_, Vec<Value>> {
    log.lock().expect("no test panics while it holds the log")
}

/// Longest wait for an answer, far more than any takes.
const ANSWER: Duration = Duration::from_secs(20);
