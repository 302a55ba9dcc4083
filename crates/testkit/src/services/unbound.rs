//! Unbound: a resolver that asks one name server for a zone, and follows its delegations.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use super::process::{Process, attempts, write};
use super::reaper::Reaper;
use super::{free_port, program};

/// Resolver that minimises names strictly and mixes the case of letters, as those of CAs do.
pub struct Unbound {
    folder: PathBuf,
    address: SocketAddr,
    _process: Process,
    _reaper: Reaper,
}

impl Unbound {
    /// Starts a resolver for `zone`, without its last dot, whose name server is `server`.
    ///
    /// # Panics
    /// If Unbound is not installed, or does not start.
    #[must_use]
    pub fn start(zone: &str, server: SocketAddr) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sekisho-unbound-")
            .tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        let (address, process) = attempts("Unbound", || {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
            write(&folder, "unbound.conf", &config(address, zone, server));
            let mut command = Command::new(program("unbound", &[], "unbound"));
            command.args(["-d", "-c", "unbound.conf"]);
            let process = Process::spawn(&mut command, &folder, "unbound");
            process.answers(address).map(|process| (address, process))
        });
        Self {
            folder,
            address,
            _process: process,
            _reaper: reaper,
        }
    }

    /// Returns the address, for UDP and TCP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what the resolver wrote.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("unbound.log")).unwrap_or_default()
    }
}

/// No record is kept past its second: tests set records that were asked for before. Of its
/// 10 connections, Pebble takes six at once, and Unbound closes those that wait for some
/// 200 ms while more than half are taken.
fn config(address: SocketAddr, zone: &str, server: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    let (server_ip, server_port) = (server.ip(), server.port());
    format!(
        "server:\n  interface: {ip}@{port}\n  port: {port}\n  do-daemonize: no\n  \
         username: \"\"\n  chroot: \"\"\n  directory: \".\"\n  pidfile: \"\"\n  use-syslog: no\n  logfile: \"\"\n  \
         verbosity: 2\n  num-threads: 1\n  incoming-num-tcp: 100\n  do-ip6: no\n  module-config: \"iterator\"\n  \
         access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no\n  \
         local-zone: \"{zone}.\" nodefault\n  use-caps-for-id: yes\n  \
         qname-minimisation: yes\n  qname-minimisation-strict: yes\n  \
         cache-max-ttl: 0\n  cache-max-negative-ttl: 0\n\
         remote-control:\n  control-enable: no\n\
         stub-zone:\n  name: \"{zone}.\"\n  stub-addr: {server_ip}@{server_port}\n"
    )
}
