//! Three servers on one PostgreSQL, each on a machine of its own as far as it
//! can tell: a folder with a configuration, and the master key.

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

/// The machines, in no order.
struct Rig {
    machines: [Machine; 3],
}

struct Machine {
    sandbox: Sandbox,
    server: Server,
}

impl Rig {
    /// On a new database.
    fn new() -> Self {
        let url = Postgres::shared().database();
        let machines = prepared([&url, &url, &url]).map(Machine::start);
        Self { machines }
    }

    /// On the database of this URL, to which a proxy leads the last of them.
    fn proxied(url: &str, proxy: &Proxy) -> Self {
        let place = url.rsplit_once('@').expect("a user").1;
        let place = place.split('/').next().expect("host and port");
        let far = url.replace(place, &format!("127.0.0.1:{}", proxy.port()));
        let machines = prepared([url, url, &far]).map(Machine::start);
        Self { machines }
    }

    /// Waits until every server shows this host with that certificate.
    fn all_show(&self, host: &str, pair: &Pair) {
        for Machine { server, .. } in &self.machines {
            until(host, ARRIVES, || shows(server, host, pair));
        }
    }

    /// Waits until no server knows this host.
    fn none_knows(&self, host: &str) {
        for Machine { server, .. } in &self.machines {
            until(host, ARRIVES, || is_unknown(server, host));
        }
    }

    /// Waits until all servers have read the log of what was written so far. A
    /// host that is read before its own change has come is dropped by that.
    fn all_have_read_the_log(&self, writer: &Sandbox) {
        self.none_knows("log.example");
        let last = import(writer, &["log.example"]);
        // Each remembers that it is not there until the log says otherwise.
        self.all_show("log.example", &last);
    }

    /// Ends all of them as an operator does.
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

/// Machines on a store at these URLs, where nothing runs yet.
fn prepared<const N: usize>(urls: [&str; N]) -> [Sandbox; N] {
    let sandboxes = urls.map(sandbox);
    sandboxes[0].ok(&["host", "set", "made.example"]);
    for sandbox in &sandboxes[1..] {
        let key = sandboxes[0].path("master.key");
        fs::copy(key, sandbox.path("master.key")).expect("a copy");
    }
    sandboxes
}

/// Stores a new certificate for these names, by the command on that machine.
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

/// Absent, which is not failed.
fn is_unknown(server: &Server, host: &str) -> bool {
    let refused = leaf(server.https, host).err();
    refused.is_some_and(|error| error.to_string().contains("UnrecognisedName"))
}

/// The certificate that a client of the whole handshake gets.
fn leaf(server: SocketAddr, host: &str) -> io::Result<CertificateDer<'static>> {
    let connect = client::connect(server, host, client::config(ca()));
    let stream = blocking(connect)?;
    let chain = stream.get_ref().1.peer_certificates();
    Ok(chain.expect("the handshake is done")[0]
        .clone()
        .into_owned())
}

/// Runs a client's future; a server that says nothing fails the test.
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

/// Far more than anything here takes.
const ANSWER: Duration = Duration::from_secs(20);

/// Other tests say how soon; these say that it does.
const ARRIVES: Duration = Duration::from_secs(15);

/// A broken connection is given up, the breaker rests, and both are tried
/// again, on a loaded machine.
const HEALS: Duration = Duration::from_secs(30);
