//! Tests three servers on one PostgreSQL. Each has what a machine of its own
//! would have: a folder with a configuration, and the master key.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use sekisho_testkit::services::Postgres;
use sekisho_testkit::{Key, Pair, Proxy, client};
use tokio::runtime::{Builder, Runtime};

use crate::postgres::sandbox;
use crate::sandbox::{Sandbox, Server, ca, until};

mod changes;
mod cut;
mod failover;
mod replaced;
mod tickets;

/// Three machines on one database.
struct Rig {
    machines: [Machine; 3],
}

struct Machine {
    sandbox: Sandbox,
    server: Server,
}

impl Rig {
    /// Starts three servers on a new database.
    fn new() -> Self {
        let url = Postgres::shared().database();
        let machines = prepared([&url, &url, &url]).map(Machine::start);
        Self { machines }
    }

    /// Starts three servers on the database of this URL. The last one reaches
    /// it through the proxy.
    fn proxied(url: &str, proxy: &Proxy) -> Self {
        let place = url.rsplit_once('@').expect("a user").1;
        let place = place.split('/').next().expect("host and port");
        let far = url.replace(place, &format!("127.0.0.1:{}", proxy.port()));
        let machines = prepared([url, url, &far]).map(Machine::start);
        Self { machines }
    }

    /// Waits until every server serves this certificate for the host.
    fn all_show(&self, host: &str, pair: &Pair) {
        for Machine { server, .. } in &self.machines {
            until(host, ARRIVES, || shows(server, host, pair));
        }
    }

    /// Waits until every server refuses this host as unknown.
    fn none_knows(&self, host: &str) {
        for Machine { server, .. } in &self.machines {
            until(host, ARRIVES, || is_unknown(server, host));
        }
    }

    /// Waits until all servers have read the change log up to now. A server
    /// that caches a host before its change arrives drops it then.
    fn all_have_read_the_log(&self, writer: &Sandbox) {
        self.none_knows("log.example");
        let last = import(writer, &["log.example"]);
        // Each server caches the absence until it reads the change in the log.
        self.all_show("log.example", &last);
    }

    /// Ends all servers as an operator does.
    fn stop(self) {
        for Machine { server, .. } in self.machines {
            let log = server.log();
            assert!(!log.contains("correct-horse"), "{log}");
            server.stop();
        }
    }
}

impl Machine {
    fn start(sandbox: Sandbox) -> Self {
        let server = sandbox.serve();
        Self { sandbox, server }
    }
}

/// Makes machines with a store at these URLs, without servers.
fn prepared<const N: usize>(urls: [&str; N]) -> [Sandbox; N] {
    let sandboxes = urls.map(sandbox);
    sandboxes[0].ok(&["host", "set", "made.example"]);
    for sandbox in &sandboxes[1..] {
        let key = sandboxes[0].path("master.key");
        fs::copy(key, sandbox.path("master.key")).expect("a copy");
    }
    sandboxes
}

/// Stores a new certificate for these names, with the command on this machine.
fn import(machine: &Sandbox, names: &[&str]) -> Pair {
    let pair = ca().issue(names, Key::P256);
    machine.write("new.crt", &pair.chain_pem());
    machine.write("new.key", &pair.key_pem());
    machine.ok(&["cert", "import", "--chain", "new.crt", "--key", "new.key"]);
    pair
}

fn shows(server: &Server, host: &str, pair: &Pair) -> bool {
    leaf(server.https, host).is_ok_and(|leaf| leaf == pair.chain[0])
}

/// Returns whether the host is absent, which differs from a failed lookup.
fn is_unknown(server: &Server, host: &str) -> bool {
    let refused = leaf(server.https, host).err();
    refused.is_some_and(|error| error.to_string().contains("UnrecognisedName"))
}

/// Returns the leaf that a client gets in a full handshake.
fn leaf(server: SocketAddr, host: &str) -> io::Result<CertificateDer<'static>> {
    let connect = client::connect(server, host, client::config(ca()));
    let stream = blocking(connect)?;
    let chain = stream.get_ref().1.peer_certificates();
    Ok(chain.expect("the handshake is done")[0]
        .clone()
        .into_owned())
}

/// Runs a client's future; fails the test if the server does not answer.
fn blocking<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
    }
    RUNTIME.with(|runtime| {
        let bounded = runtime.block_on(async { tokio::time::timeout(ANSWER, future).await });
        bounded.expect("an answer in time")
    })
}

/// Longest wait for an answer, far more than any takes.
const ANSWER: Duration = Duration::from_secs(20);

/// Longest wait for a change. Other tests check the time; these check the
/// arrival.
const ARRIVES: Duration = Duration::from_secs(15);

/// Longest wait for a recovery on a loaded machine: the connection times out,
/// the circuit breaker rests, and both are tried again.
const HEALS: Duration = Duration::from_secs(30);
