//! A server that starts while its store is down, with copies on disk of what
//! it had.

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

/// A host with a certificate of its own.
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

    /// Whether this very certificate is served for it.
    fn is_served(&self, server: &Server) -> bool {
        leaf(server, &self.name).is_ok_and(|leaf| leaf == self.pair.chain[0].as_ref())
    }
}

/// The certificate that a client is shown, which trusts the CA of the tests.
fn leaf(server: &Server, name: &str) -> io::Result<Vec<u8>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = client::connect(server.https, name, client::config(ca())).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        Ok(certificates.expect("it was verified")[0].to_vec())
    })
}

/// Waits until that many hosts have a copy.
fn kept(server: &Server, number: usize) {
    let is = |wanted: f64| server.metric("sekisho_disk_cache_copies") == Some(wanted);
    let number = f64::from(u32::try_from(number).expect("a few"));
    until("the copies", LONG, || is(number));
}

/// Ends it as the system does with one that takes too much.
fn kill(server: Server) {
    // Dropping sends SIGKILL and waits.
    drop(server);
}

/// Nothing on the disk beside the certificates' files holds any of these keys.
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

/// What a breaker and a loaded machine add to a restart of a store.
const LONG: Duration = Duration::from_secs(30);
