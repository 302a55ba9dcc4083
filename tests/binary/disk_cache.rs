//! Tests a server that starts while its store is down, and serves from the disk
//! cache.

mod catalog;
mod plain;
mod trouble;

use std::fs;
use std::io;
use std::time::Duration;

use sekisho_testkit::{Key, Pair, client};
use tokio::runtime::Builder;

use crate::sandbox::{Sandbox, Server, ca, until};
use crate::secrets::search::Search;

/// Host with its own certificate.
struct Host {
    name: String,
    pair: Pair,
}

impl Host {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pair: ca().issue(&[name], Key::P256),
        }
    }

    fn bundle(&self) -> String {
        self.pair.chain_pem() + &self.pair.key_pem()
    }

    /// Returns whether the server serves exactly this certificate.
    fn is_served(&self, server: &Server) -> bool {
        leaf(server, &self.name).is_ok_and(|leaf| leaf == self.pair.chain[0].as_ref())
    }
}

/// Returns the leaf that a client gets, which trusts the test CA.
fn leaf(server: &Server, name: &str) -> io::Result<Vec<u8>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = client::connect(server.https, name, client::config(ca())).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        Ok(certificates.expect("it was verified")[0].to_vec())
    })
}

/// Waits until the disk cache has this number of hosts.
fn kept(server: &Server, number: usize) {
    let is = |wanted: f64| server.metric("sekisho_disk_cache_copies") == Some(wanted);
    let number = f64::from(u32::try_from(number).expect("a few"));
    until("the copies", LONG, || is(number));
}

/// Kills the server, as the kernel does when memory runs out.
fn kill(server: Server) {
    // Dropping sends SIGKILL and waits.
    drop(server);
}

/// Fails if a file of the disk cache contains one of these keys in the clear.
fn assert_sealed(sandbox: &Sandbox, hosts: &[Host]) {
    let search = Search::of(hosts.iter().map(|host| &host.pair));
    let mut looked = 0;
    for entry in fs::read_dir(sandbox.root()).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        if !name.starts_with("disk-cache.db") {
            continue;
        }
        looked += 1;
        search.through(&entry.path());
    }
    assert!(looked >= 2, "file and lock");
}

/// Longest wait for a store that restarts: the circuit breaker's rest, on a
/// loaded machine.
const LONG: Duration = Duration::from_secs(30);
