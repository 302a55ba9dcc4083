//! The wait until all authoritative servers of a zone have a record.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::error::Fault;
use super::locate::parse;
use super::{Presented, Settings};
use sekisho_dns::{TRY, question, send};

/// Waits for a record, up to the bound of the settings.
pub(super) async fn wait(settings: &Settings, presented: &Presented) -> Result<(), Fault> {
    let zone = parse(&presented.zone)?;
    let servers = timeout(settings.deadline, servers(settings, &zone)).await;
    let late = |_| Fault::Unreachable(format!("no name servers of {zone} in time"));
    let servers = servers.map_err(late)??;
    let fqdn = parse(&presented.fqdn)?;
    let until = Instant::now() + settings.propagation;
    let mut waits = JoinSet::new();
    for server in servers {
        let (fqdn, value) = (fqdn.clone(), presented.value.clone());
        let wait = Wait {
            server,
            fqdn,
            value: value.into_bytes(),
            interval: settings.interval,
        };
        waits.spawn(wait.run(until));
    }
    judge(settings, &waits.join_all().await)
}

/// Judges what was seen on each server.
fn judge(settings: &Settings, all: &[(Name, Seen)]) -> Result<(), Fault> {
    let has_record = |(_, seen): &&(Name, Seen)| matches!(seen, Seen::Record);
    let lacks = all.iter().find_map(|(name, seen)| match seen {
        Seen::Nothing => Some(format!("{name} lacks the record")),
        _ => None,
    });
    let silent = all.iter().find_map(|(_, seen)| match seen {
        Seen::NoAnswer(why) => Some(why.clone()),
        _ => None,
    });
    let missing = match (lacks, silent) {
        (None, None) => return Ok(()),
        (None, Some(why)) if all.iter().any(|one| has_record(&one)) => {
            // A validator asks another server then.
            tracing::warn!(
                error = why,
                "name server does not answer, going on without it"
            );
            return Ok(());
        }
        (Some(why), _) | (None, Some(why)) => why,
    };
    let (count, seconds) = (all.iter().filter(has_record).count(), settings.propagation);
    Err(Fault::Propagation(format!(
        "after {} s, {count} of {} authoritative servers have the record: {missing}",
        seconds.as_secs_f32(),
        all.len()
    )))
}

/// An authoritative server of a zone.
struct Server {
    name: Name,
    addresses: Vec<SocketAddr>,
}

/// Finds the authoritative servers of a zone with their addresses.
async fn servers(settings: &Settings, zone: &Name) -> Result<Vec<Server>, Fault> {
    let resolver = &settings.resolver;
    let answer = resolver.ask(zone, RecordType::NS).await?;
    let mut servers = Vec::new();
    for record in answer.answers.iter().take(MAX_SERVERS) {
        let RData::NS(name) = &record.data else {
            continue;
        };
        let mut addresses = Vec::new();
        for kind in [RecordType::A, RecordType::AAAA] {
            // A server whose name fails is one that does not answer.
            let found = resolver.records(&name.0.to_ascii(), kind).await;
            let found = found.unwrap_or_default();
            let found = found.iter().filter_map(RData::ip_addr);
            addresses.extend(found.map(|ip| SocketAddr::new(ip, settings.port)));
        }
        servers.push(Server {
            name: name.0.clone(),
            addresses,
        });
    }
    match servers.is_empty() {
        true => Err(Fault::Name(format!("zone {zone} has no name servers"))),
        false => Ok(servers),
    }
}

/// Records of one server.
enum Seen {
    Record,
    Nothing,
    NoAnswer(String),
}

/// Wait for one record on one server.
struct Wait {
    server: Server,
    fqdn: Name,
    value: Vec<u8>,
    interval: Duration,
}

impl Wait {
    async fn run(self, until: Instant) -> (Name, Seen) {
        let mut last = Seen::NoAnswer(format!("{} does not answer", self.server.name));
        loop {
            // An answer that is too late tells less than the one before it.
            if let Ok(seen) = timeout_at(until, self.look()).await {
                last = seen;
            }
            if matches!(last, Seen::Record) || Instant::now() + self.interval >= until {
                return (self.server.name, last);
            }
            sleep(self.interval).await;
        }
    }

    /// Asks the addresses in turn until one answers.
    async fn look(&self) -> Seen {
        let mut question = question(&self.fqdn, RecordType::TXT);
        question.metadata.recursion_desired = false;
        let mut why = format!("{} has no address", self.server.name);
        for address in &self.server.addresses {
            match send(*address, &question, TRY).await {
                Ok((answer, _)) => match answer.metadata.response_code {
                    ResponseCode::NoError | ResponseCode::NXDomain => {
                        let mut records = answer.answers.iter();
                        return match records.any(|record| self.is_it(&record.data)) {
                            true => Seen::Record,
                            false => Seen::Nothing,
                        };
                    }
                    code => why = format!("{} ({address}): {code}", self.server.name),
                },
                Err(no) => why = format!("{} ({address}): {no}", self.server.name),
            }
        }
        Seen::NoAnswer(why)
    }

    fn is_it(&self, data: &RData) -> bool {
        matches!(data, RData::TXT(text) if text.txt_data.concat() == self.value)
    }
}

/// The root zone has 13.
const MAX_SERVERS: usize = 16;
