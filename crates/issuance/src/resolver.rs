//! Stub resolver: asks recursive name servers (RFC 1035), and follows CNAMEs.
//!
//! Nothing is cached, and DNSSEC is not validated: the name servers do both.

mod exchange;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::time::timeout;

use exchange::exchange;

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
        let parsed = Name::from_ascii(name);
        let mut at = parsed.map_err(|why| ResolveError::Name(name.into(), why.to_string()))?;
        at.set_fqdn(true);
        let mut aliases = 0;
        loop {
            let asked = at.clone();
            let answers = self.ask(&asked, kind).await?.answers;
            loop {
                let found = data(&answers, &at, kind);
                if !found.is_empty() {
                    return Ok(found);
                }
                let Some(RData::CNAME(target)) = data(&answers, &at, RecordType::CNAME).pop()
                else {
                    break;
                };
                aliases += 1;
                if aliases > MAX_ALIASES {
                    return Err(ResolveError::Aliases(name.into()));
                }
                at = target.0;
            }
            if at == asked {
                return Ok(Vec::new());
            }
        }
    }

    /// Returns the first answer that is no failure; NXDOMAIN is an answer.
    pub(crate) async fn ask(&self, name: &Name, kind: RecordType) -> Result<Message, ResolveError> {
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

/// Sends a request to one server, once. Returns its answer, and the bytes of it, or
/// what went wrong within the bound.
pub(crate) async fn send(
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
pub(crate) fn question(name: &Name, kind: RecordType) -> Message {
    // With a random id; the socket adds a random port (RFC 5452).
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(exchange::MAX_DATAGRAM);
    message.set_edns(edns);
    message
}

fn data(answers: &[Record], name: &Name, kind: RecordType) -> Vec<RData> {
    let of = |record: &&Record| record.name == *name && record.record_type() == kind;
    let found = answers.iter().filter(of);
    found.map(|record| record.data.clone()).collect()
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
pub(crate) const PORT: u16 = 53;
/// As many as common resolvers follow.
const MAX_ALIASES: usize = 8;
/// Most answers come within it; a server that is slower has cached its answer when
/// it is asked again.
pub(crate) const TRY: Duration = Duration::from_secs(2);
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
