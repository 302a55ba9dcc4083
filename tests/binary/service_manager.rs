//! Tests what a service manager is told, and the sockets that it opens.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Instant;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::sandbox::{SOON, Sandbox, Server, binary, until};

/// Service manager that hears what a server says.
struct Manager {
    socket: UnixDatagram,
    sandbox: Sandbox,
}

impl Manager {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.import(&["a.example"]);
        let socket = UnixDatagram::bind(sandbox.path("notify")).expect("a socket");
        socket.set_read_timeout(Some(SOON)).expect("a time");
        Self { socket, sandbox }
    }

    fn command(&self) -> Command {
        let mut command = self.sandbox.command(&["serve", "--log", "json"]);
        command
            .env("NOTIFY_SOCKET", self.sandbox.path("notify"))
            .env("WATCHDOG_USEC", "1000000")
            // Of a process that has long ended.
            .env("WATCHDOG_PID", "1");
        command
    }

    /// Returns the next message that begins like this. Others before it are passed over.
    fn hears(&self, what: &str) -> String {
        let end = Instant::now() + SOON;
        let mut bytes = [0; 512];
        while Instant::now() < end {
            let length = self.socket.recv(&mut bytes).expect("a message");
            let text = String::from_utf8_lossy(&bytes[..length]);
            if let Some(message) = text.lines().find(|line| line.starts_with(what)) {
                return message.to_owned();
            }
        }
        panic!("{what} was not heard");
    }

    /// Drops what was said until now.
    fn forget(&self) {
        self.socket.set_nonblocking(true).expect("it can");
        let mut bytes = [0; 512];
        loop {
            match self.socket.recv(&mut bytes) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.socket.set_nonblocking(false).expect("it can");
    }
}

#[test]
fn the_manager_learns_which_process_serves() {
    let manager = Manager::new();
    let server = Server::start(manager.command());
    manager.hears("READY=1");
    manager.hears("WATCHDOG=1");
    server.signal(Signal::HUP);
    let main = manager.hears("MAINPID=");
    assert_ne!(main, format!("MAINPID={}", server.pid()));
    manager.hears("READY=1");
    // No process keeps the pid for a manager that was told.
    let mut server = server;
    assert!(server.ended().success(), "{}", server.log());
    manager.forget();
    manager.hears("WATCHDOG=1");
    let pid = main.trim_start_matches("MAINPID=").parse().expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, Signal::TERM).expect("it serves");
    manager.hears("STOPPING=1");
    until("the end", SOON, || {
        rustix::process::test_kill_process(pid).is_err()
    });
}

#[test]
fn a_managers_sockets_are_used() {
    let manager = Manager::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let path = manager.sandbox.path("sekisho.toml");
    let config = fs::read_to_string(&path).expect("ours");
    let config = config.replacen("127.0.0.1:0", &address.to_string(), 1);
    // More workers than sockets: they share it.
    manager.sandbox.write(
        "sekisho.toml",
        &format!("{config}\n[server]\nworkers = 2\n"),
    );
    // A shell knows its pid before it executes the server, as the manager does.
    let mut command = Command::new("bash");
    let script = format!(
        "exec 3<&{}; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --log json",
        listener.as_raw_fd()
    );
    command
        .args(["-c", &script])
        .arg(binary())
        .current_dir(manager.sandbox.root())
        .env_remove("SEKISHO_LOG");
    fcntl_setfd(&listener, FdFlags::empty()).expect("it is open");
    let server = Server::start(command);
    fcntl_setfd(&listener, FdFlags::CLOEXEC).expect("it is open");
    drop(listener);
    assert!(server.fetch("a.example").is_ok());
    server.signal(Signal::HUP);
    until("a hand-over", SOON, || server.log().contains("handed over"));
    assert!(server.fetch("a.example").is_ok());
    server.stop();
}
