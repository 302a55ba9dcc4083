//! Name server of the zones whose challenges of DNS-01 this catalog's servers answer.
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
use sekisho_dns::authority::{Outcome, Reply, Transport, Zone, reply};
use sekisho_gate::{Gate, Rate, Sharing};
use tokio::sync::watch;
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

/// What all sockets share.
#[derive(Debug)]
struct Shared {
    zones: Vec<Zone>,
    reader: Reader,
    /// Datagrams of a network.
    rate: Rate<Prefix>,
    /// A permit is a connection.
    connections: Gate<Prefix>,
    questions: [Counter; OUTCOMES.len()],
}

impl NameServer {
    /// Makes a server that answers for these zones, with the texts of that source.
    #[must_use]
    pub fn new(
        zones: Vec<Zone>,
        sockets: Vec<ZoneSockets>,
        source: Arc<dyn ChallengeSource>,
    ) -> Self {
        let shared = Shared {
            zones,
            reader: Reader::new(source),
            rate: Rate::new(PERIOD),
            connections: Gate::new(CONNECTIONS, Sharing::AtMost(|_| OF_NETWORK), 0),
            questions: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
            sockets,
        }
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        let each = OUTCOMES.map(|(outcome, word)| (word, self.shared.counter(outcome).clone()));
        let label = "outcome";
        let help = "Questions to the zones of [acme.dns] serve, by the answer";
        registry.register("dns_questions", help, Counters { label, each });
        let help = "Reads of the catalog for questions to the zones of [acme.dns] serve";
        registry.register("dns_reads", help, self.shared.reader.reads());
    }

    /// Answers until `stopped` resolves. Questions that were taken by then are answered
    /// within [`LAST`].
    ///
    /// # Errors
    /// If the sockets can't be used on this runtime.
    pub async fn run(self, stopped: impl Future<Output = ()>) -> io::Result<()> {
        let mut serving = JoinSet::new();
        let (stop, stops) = watch::channel(());
        for sockets in self.sockets {
            let (udp, tcp) = sockets.open()?;
            let shared = Arc::clone(&self.shared);
            serving.spawn(udp::serve(shared, udp, stops.clone()));
            let shared = Arc::clone(&self.shared);
            serving.spawn(tcp::serve(shared, tcp, stops.clone()));
        }
        stopped.await;
        drop(stop);
        let ended = async { while serving.join_next().await.is_some() {} };
        // What is left ends with the set.
        let _ = timeout(LAST, ended).await;
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
        let sent = match reply(&self.zones, message, via, reached) {
            Reply::Texts(asked) => match self.reader.texts().await {
                Some(texts) => {
                    let of_name = texts.get(asked.name()).into_iter().flatten();
                    let of_name: Vec<_> = of_name.map(String::as_str).collect();
                    asked.answer(&of_name)
                }
                None => asked.failure(),
            },
            other => other,
        };
        let Reply::Send(answer, outcome) = sent else {
            return None;
        };
        self.counter(outcome).inc();
        Some(answer)
    }

    fn counter(&self, outcome: Outcome) -> &Counter {
        let found = OUTCOMES.iter().position(|(one, _)| *one == outcome);
        &self.questions[found.expect("all outcomes are listed")]
    }

    /// Returns how a datagram of this network is taken.
    fn datagram_of(&self, peer: IpAddr) -> Transport {
        match self.rate.take(Prefix::from(peer), DATAGRAMS) {
            Ok(()) => Transport::Udp,
            Err(_) => Transport::Flood,
        }
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

const OUTCOMES: [(Outcome, &str); 6] = [
    (Outcome::Answered, "answered"),
    (Outcome::Empty, "empty"),
    (Outcome::Failed, "failed"),
    (Outcome::Malformed, "malformed"),
    (Outcome::Refused, "refused"),
    (Outcome::Truncated, "truncated"),
];
/// Datagrams that a network may send at once; as many come back in [`PERIOD`]. A resolver
/// asks some ten questions for a challenge.
const DATAGRAMS: NonZeroU32 = NonZeroU32::new(100).expect("not 0");
const PERIOD: Duration = Duration::from_secs(2);
/// Connections at once, and those of a network.
const CONNECTIONS: usize = 512;
const OF_NETWORK: usize = CONNECTIONS / 8;
/// Longest wait for questions that were taken: a read has 3 s.
const LAST: Duration = Duration::from_secs(4);
