//! Knot DNS: an authoritative server that takes dynamic updates.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use super::process::{Process, attempts, write};
use super::reaper::Reaper;
use super::{free_port, program, ran};

/// Knot with zones of its own.
pub struct Knot {
    folder: PathBuf,
    address: SocketAddr,
    _process: Process,
    _reaper: Reaper,
}

/// A zone as it is at the start.
pub struct Zone<'a> {
    /// Its name, without the last dot.
    pub name: &'a str,
    /// Records in the form of zone files, without the SOA.
    pub records: &'a str,
    /// Id of the key that may change it.
    pub key: &'a str,
}

impl Knot {
    /// Starts a server on a free port of an address of loopback. `keys` are
    /// algorithm, id and secret, base64, of TSIG.
    ///
    /// # Panics
    /// If Knot is not installed, or does not start.
    #[must_use]
    pub fn start(ip: Ipv4Addr, keys: &[(&str, &str, &str)], zones: &[Zone<'_>]) -> Self {
        Self::start_at(ip, None, keys, zones)
    }

    /// Starts a server at this port, or a free one if none.
    ///
    /// # Panics
    /// As [`Knot::start`].
    #[must_use]
    pub fn start_at(
        ip: Ipv4Addr,
        port: Option<u16>,
        keys: &[(&str, &str, &str)],
        zones: &[Zone<'_>],
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("sekisho-knot-").tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        for zone in zones {
            let (name, records) = (zone.name, zone.records);
            let text =
                format!("$ORIGIN {name}.\n$TTL 60\n@ SOA ns root 1 60 60 600 1\n{records}\n");
            write(&folder, &format!("{name}.zone"), &text);
        }
        let (address, process) = attempts("Knot", || {
            let address = SocketAddr::from((ip, port.unwrap_or_else(free_port)));
            write(&folder, "knot.conf", &config(address, &folder, keys, zones));
            let mut command = Command::new(program("knotd", &[], "knot"));
            command.args(["-c", "knot.conf"]);
            // Knot's own file is knot.pid, which must not be there before it.
            let process = Process::spawn(&mut command, &folder, "knotd");
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

    /// Adds a TXT record to a zone; the name ends with a dot.
    ///
    /// # Panics
    /// If the zone takes no change.
    pub fn add_txt(&self, zone: &str, name: &str, value: &str) {
        self.change(zone, &["zone-set", zone, name, "60", "TXT", &quoted(value)]);
    }

    /// Removes a TXT record.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove_txt(&self, zone: &str, name: &str, value: &str) {
        self.change(zone, &["zone-unset", zone, name, "TXT", &quoted(value)]);
    }

    /// Tells whether a name has TXT records.
    ///
    /// # Panics
    /// If the server does not run.
    #[must_use]
    pub fn has_txt(&self, zone: &str, name: &str) -> bool {
        let read = self.control(&["zone-read", zone, name, "TXT"]).output();
        read.expect("knotc runs").status.success()
    }

    /// Makes a command of the control utility, for scripts too.
    #[must_use]
    pub fn control(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program("knotc", &[], "knot"));
        command
            .arg("-s")
            .arg(self.folder.join("knot.sock"))
            .args(args);
        command
    }

    fn change(&self, zone: &str, change: &[&str]) {
        for args in [&["zone-begin", zone], change, &["zone-commit", zone]] {
            ran(&mut self.control(args));
        }
    }

    /// Returns what the server wrote.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("knotd.log")).unwrap_or_default()
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn config(
    address: SocketAddr,
    folder: &std::path::Path,
    keys: &[(&str, &str, &str)],
    zones: &[Zone<'_>],
) -> String {
    let (ip, port, folder) = (address.ip(), address.port(), folder.display());
    let mut text = format!(
        "server:\n  rundir: {folder}\n  listen: {ip}@{port}\n  udp-workers: 1\n  \
         tcp-workers: 2\n  background-workers: 1\n\
         log:\n- target: stderr\n  any: info\n\
         database:\n  storage: {folder}\n  journal-db-max-size: 16M\n"
    );
    let mut add = |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a string");
    add(format_args!("key:\n"));
    for (algorithm, id, secret) in keys {
        add(format_args!(
            "- id: {id}\n  algorithm: {algorithm}\n  secret: {secret}\n"
        ));
    }
    add(format_args!("acl:\n"));
    for (_, id, _) in keys {
        add(format_args!("- id: {id}\n  key: {id}\n  action: update\n"));
    }
    add(format_args!("zone:\n"));
    for Zone { name, key, .. } in zones {
        add(format_args!(
            "- domain: {name}\n  storage: {folder}\n  file: {name}.zone\n  acl: {key}\n"
        ));
    }
    text
}
