//! Name server of the zone whose challenges of DNS-01 this catalog's servers answer.
//!
//! ```text
//!  zone/sockets.rs   UDP and TCP of one address, bound once
//!    ▼
//!  zone/udp.rs │ zone/tcp.rs   a question, and the rate or the permit of its network
//!    ▼
//!  crates/dns: authority.rs    what it asks for, and the answer
//!    ▼
//!  zone/reader.rs    only for texts: a read of the catalog that begins after the question
//! ```
//!
//! - Any server of the catalog answers: another one may have begun the order a moment ago.
//!   A read that began before the question may lack the text, and resolvers would remember
//!   that.
//! - A sender's address may be forged. A network that sends too many datagrams gets answers
//!   that are no larger than its questions, with the flag TC: clients that are there come
//!   over TCP.

mod reader;
mod sockets;
mod tcp;
mod udp;

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::metrics::{Counter, Counters, Registry};
use sekisho_certs::{ChallengeSource, Prefix};
use sekisho_dns::authority::{Transport, Zone};
use sekisho_gate::{Gate, Rate, Sharing};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::reader::Reader;
pub use self::sockets::ZoneSockets;

/// Name server whose sockets are bound.
#[derive(Debug)]
pub struct NameServer {
    shared: Arc<Shared>,
    sockets: Vec<ZoneSockets>,
}

/// State that all sockets share.
#[derive(Debug)]
struct Shared {
    zone: Zone,
    reader: Reader,
    /// Datagrams of a network.
    rate: Rate<Prefix>,
    /// A permit is a connection.
    connections: Gate<Prefix>,
    /// As many permits, by wider prefixes: whoever has one has all networks in it.
    connections_wider: Gate<Prefix>,
    /// A permit is a datagram or a connection that is under way.
    work: Arc<Semaphore>,
    /// Questions by what was answered.
    questions: [(&'static str, Counter); OUTCOMES.len()],
}

impl NameServer {
    /// Makes a server that answers for this zone, with the texts of that source, which
    /// bounds the time of a read.
    #[must_use]
    pub fn new(zone: Zone, sockets: Vec<ZoneSockets>, source: Arc<dyn ChallengeSource>) -> Self {
        let shared = Shared {
            zone,
            reader: Reader::new(source),
            rate: Rate::new(PERIOD),
            connections: Gate::new(CONNECTIONS, Sharing::AtMost(|_| OF_NETWORK), 0),
            connections_wider: Gate::new(CONNECTIONS, Sharing::AtMost(|_| OF_WIDER), 0),
            work: Arc::new(Semaphore::new(WORK)),
            questions: OUTCOMES.map(|word| (word, Counter::default())),
        };
        Self {
            shared: Arc::new(shared),
            sockets,
        }
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        let (label, each) = ("outcome", self.shared.questions.clone());
        let help = "Questions to the zone of [acme.dns] serve, by the answer";
        registry.register("dns_questions", help, Counters { label, each });
        let help = "Reads of the catalog for questions to the zone of [acme.dns] serve";
        registry.register("dns_reads", help, self.shared.reader.reads.clone());
    }

    /// Answers until `stopped` resolves, and then what was taken by then, for 4 s at
    /// most.
    ///
    /// # Errors
    /// If the sockets can't be used on this runtime.
    pub async fn run(self, stopped: impl Future<Output = ()>) -> io::Result<()> {
        let mut serving = JoinSet::new();
        for sockets in self.sockets {
            let (udp, tcp) = sockets.open()?;
            serving.spawn(udp::serve(Arc::clone(&self.shared), udp));
            serving.spawn(tcp::serve(Arc::clone(&self.shared), tcp));
        }
        stopped.await;
        serving.shutdown().await;
        let all = u32::try_from(WORK).expect("it is small");
        let _ = timeout(LAST, self.shared.work.acquire_many(all)).await;
        Ok(())
    }
}

impl Shared {
    /// Answers a message; none if it is no question. `peer` has sent it to the address
    /// `local` of this machine.
    async fn answer(
        &self,
        message: &[u8],
        via: Transport,
        peer: IpAddr,
        local: Option<IpAddr>,
    ) -> Option<Vec<u8>> {
        let reached = local.filter(|local| is_reached_by(*local, peer));
        let answer = self.zone.answer(message, via, reached, self.reader.texts());
        let (answer, outcome) = answer.await?;
        self.questions[outcome as usize].1.inc();
        Some(answer)
    }
}

/// Tells whether an address of this machine is also the one that a client has asked: behind
/// a translation of addresses it is not.
fn is_reached_by(local: IpAddr, peer: IpAddr) -> bool {
    let is_inside = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(),
    };
    !is_inside(local) || is_inside(peer)
}

/// Words for what answers say, in the order of [`Outcome`](sekisho_dns::authority::Outcome).
const OUTCOMES: [&str; 6] = [
    "answered",
    "empty",
    "refused",
    "truncated",
    "malformed",
    "failed",
];
/// Datagrams that a network may send at once; as many come back in [`PERIOD`]. A resolver
/// asks some ten questions for a challenge.
const DATAGRAMS: NonZeroU32 = NonZeroU32::new(100).expect("not 0");
const PERIOD: Duration = Duration::from_secs(2);
/// Connections at once, those of a network, and those of a wider one.
const CONNECTIONS: usize = 512;
const OF_NETWORK: usize = CONNECTIONS / 8;
const OF_WIDER: usize = CONNECTIONS / 4;
/// Datagrams and connections under way, some KiB each. A flood leaves the connections their
/// part.
const WORK: usize = 10_000 + CONNECTIONS;
/// Longest wait for answers to what was taken.
const LAST: Duration = Duration::from_secs(4);
