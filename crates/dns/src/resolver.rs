//! Questions to name servers in turn, and the answers of all CNAMEs' ends.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::time::timeout;

use crate::exchange::{MAX_DATAGRAM, exchange};

/// Resolver over configured name servers.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// Asked in this order; never empty.
    servers: Vec<SocketAddr>,
}

/// Reason why a name has no answer, not even an empty one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// More than 8 CNAMEs, or a loop of them.
    #[error("the CNAMEs of {0} loop, or are more than {MAX_ALIASES}")]
    Aliases(String),
    /// A name that DNS can't carry.
    #[error("{0} can't be asked for: {1}")]
    Name(String, String),
    /// No name server had an answer; says why the last one had none.
    #[error("{0}")]
    NoAnswer(String),
}

impl Resolver {
    /// Makes a resolver that asks these servers in turn. Without any, those of
    /// `/etc/resolv.conf` are asked, as the file is now.
    #[must_use]
    pub fn new(servers: &[SocketAddr]) -> Self {
        let servers = match servers {
            // The C library asks this machine too if the file names no server.
            [] => system(&fs::read_to_string(SYSTEM).unwrap_or_default()),
            servers => servers.to_vec(),
        };
        Self { servers }
    }

    /// Returns the data of all records of a kind that a name or its CNAMEs lead
    /// to. A name that is not there has none. The name is absolute, with or
    /// without its last dot.
    ///
    /// Asks each server twice, 2 s at most each time; the caller bounds the whole.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn records(&self, name: &str, kind: RecordType) -> Result<Vec<RData>, ResolveError> {
        Ok(self.found(name, kind).await?.data)
    }

    /// Like [`Self::records`], with the time that the records may be kept for.
    pub(crate) async fn found(&self, name: &str, kind: RecordType) -> Result<Found, ResolveError> {
        let parsed = Name::from_ascii(name);
        let mut at = parsed.map_err(|why| ResolveError::Name(name.into(), why.to_string()))?;
        at.set_fqdn(true);
        let mut found = Found::default();
        let mut aliases = 0;
        loop {
            let asked = at.clone();
            let answers = self.ask(&asked, kind).await?.answers;
            loop {
                found.data = found.take(&answers, &at, kind);
                if !found.data.is_empty() {
                    return Ok(found);
                }
                let alias = found.take(&answers, &at, RecordType::CNAME).pop();
                let Some(RData::CNAME(target)) = alias else {
                    break;
                };
                aliases += 1;
                if aliases > MAX_ALIASES {
                    return Err(ResolveError::Aliases(name.into()));
                }
                at = target.0;
            }
            if at == asked {
                return Ok(found);
            }
        }
    }

    /// Returns the first answer that is no failure; NXDOMAIN is an answer.
    ///
    /// # Errors
    /// [`ResolveError::NoAnswer`].
    pub async fn ask(&self, name: &Name, kind: RecordType) -> Result<Message, ResolveError> {
        let mut why = String::new();
        let tries = self.servers.len() * ROUNDS;
        for server in self.servers.iter().cycle().take(tries) {
            let what = match send(*server, &question(name, kind), TRY).await {
                Ok((answer, _)) => match answer.metadata.response_code {
                    ResponseCode::NoError | ResponseCode::NXDomain => return Ok(answer),
                    code => code.to_string(),
                },
                Err(what) => what,
            };
            why = format!("{kind} of {name} from name server {server}: {what}");
        }
        Err(ResolveError::NoAnswer(why))
    }
}

/// Records that a name or its CNAMEs lead to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) data: Vec<RData>,
    /// Smallest TTL of these records and of the CNAMEs before them, in seconds.
    pub(crate) ttl: Option<u32>,
}

impl Found {
    /// Returns the data of a name's records of one kind, and notes their TTL.
    fn take(&mut self, answers: &[Record], name: &Name, kind: RecordType) -> Vec<RData> {
        let of = |record: &&Record| record.name == *name && record.record_type() == kind;
        let found = answers.iter().filter(of);
        self.ttl = found.clone().map(|record| record.ttl).chain(self.ttl).min();
        found.map(|record| record.data.clone()).collect()
    }
}

/// Sends a request to one server, once. Returns its answer, and the bytes of it.
///
/// # Errors
/// A text that says what went wrong within the bound.
pub async fn send(
    server: SocketAddr,
    request: &Message,
    bound: Duration,
) -> Result<(Message, Vec<u8>), String> {
    match timeout(bound, exchange(server, request)).await {
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", bound.as_secs())),
    }
}

/// Makes a question for a recursive server.
#[must_use]
pub fn question(name: &Name, kind: RecordType) -> Message {
    // With a random id; the socket adds a random port (RFC 5452).
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_DATAGRAM);
    message.set_edns(edns);
    message
}

/// Reads the name servers of resolv.conf(5). Addresses with a zone are passed
/// over.
fn system(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address: IpAddr = words.next()?.parse().ok()?;
        is_server.then(|| SocketAddr::new(address, PORT))
    };
    let mut servers: Vec<_> = text.lines().filter_map(server).collect();
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

const SYSTEM: &str = "/etc/resolv.conf";
/// Port of name servers.
pub const PORT: u16 = 53;
/// As many as common resolvers follow.
const MAX_ALIASES: usize = 8;
/// Most answers come within it; a server that is slower has cached its answer when
/// it is asked again.
pub const TRY: Duration = Duration::from_secs(2);
/// A lost datagram must not fail an answer.
const ROUNDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_name_servers_are_read() {
        let text = "# nameserver 192.0.2.9\nsearch example.com\nnameserver 192.0.2.1\n\
                    nameserver\t2001:db8::1 # second\nnameserver fe80::1%eth0\noptions edns0\n";
        let expected: [SocketAddr; 2] = [
            "192.0.2.1:53".parse().unwrap(),
            "[2001:db8::1]:53".parse().unwrap(),
        ];
        assert_eq!(system(text), expected);
        assert_eq!(system(""), ["127.0.0.1:53".parse().unwrap()]);
    }
}
