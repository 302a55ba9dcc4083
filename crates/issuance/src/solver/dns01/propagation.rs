//! The wait until the servers that are asked have a record.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::error::Fault;
use super::locate::parse;
use super::{Check, Presented, Settings, Waits};
use sekisho_dns::{TRY, question, send};

/// Wait for a record that goes on.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Name of the record.
    pub fqdn: String,
    /// Servers that have it, and those that are asked; none where nobody is asked.
    pub servers: Option<(usize, usize)>,
    /// Longest time for which the wait goes on.
    pub left: Duration,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fqdn, left) = (&self.fqdn, self.left.as_secs());
        match self.servers {
            Some((have, all)) => write!(
                f,
                "{fqdn}: {have} of {all} name servers have the TXT record; waiting for up to \
                 {left} s more"
            ),
            None => write!(
                f,
                "{fqdn}: the TXT record is written, and not checked; waiting for {left} s more"
            ),
        }
    }
}

/// Waits for a record, up to the bound of the settings.
pub(super) async fn wait(
    settings: &Settings,
    presented: &Presented,
    waits: &Waits,
) -> Result<(), Fault> {
    let servers = match &settings.check {
        Check::Authoritative => {
            let zone = parse(&presented.zone)?;
            let servers = timeout(settings.deadline, servers(settings, &zone)).await;
            let late = |_| Fault::Unreachable(format!("no name servers of {zone} in time"));
            Some(servers.map_err(late)??)
        }
        Check::At(addresses) => Some(addresses.iter().map(|at| Server::at(*at)).collect()),
        Check::Off => None,
    };
    let until = Instant::now() + settings.propagation;
    let have = AtomicUsize::new(0);
    let count = servers.as_ref().map(Vec::len);
    let told = async {
        loop {
            sleep(TOLD).await;
            let waiting = Waiting {
                fqdn: presented.fqdn.clone(),
                servers: count.map(|all| (have.load(Relaxed), all)),
                left: until.saturating_duration_since(Instant::now()),
            };
            tracing::info!("{waiting}");
            waits.send_replace(Some(waiting));
        }
    };
    let Some(servers) = servers else {
        let _ = timeout_at(until, told).await;
        return Ok(());
    };
    let record = Record {
        fqdn: parse(&presented.fqdn)?,
        value: presented.value.as_bytes(),
    };
    let all = servers.iter().map(|server| async {
        let seen = server.wait(&record, settings.interval, until).await;
        if let Seen::Record = seen {
            have.fetch_add(1, Relaxed);
        }
        (server.name.as_str(), seen)
    });
    tokio::select! {
        all = join_all(all) => judge(settings, &all),
        never = told => never,
    }
}

/// Judges what was seen on each server.
fn judge(settings: &Settings, all: &[(&str, Seen)]) -> Result<(), Fault> {
    let has_record = |(_, seen): &&(&str, Seen)| matches!(seen, Seen::Record);
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
        "after {} s, {count} of {} {}servers have the record: {missing}",
        seconds.as_secs_f32(),
        all.len(),
        match settings.check {
            Check::Authoritative => "authoritative ",
            Check::At(_) | Check::Off => "",
        }
    )))
}

/// Server that is asked.
struct Server {
    name: String,
    addresses: Vec<SocketAddr>,
    /// True for one that the configuration names: it may be a resolver.
    is_named: bool,
}

impl Server {
    fn at(address: SocketAddr) -> Self {
        Self {
            name: address.to_string(),
            addresses: vec![address],
            is_named: true,
        }
    }
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
            name: name.0.to_string(),
            addresses,
            is_named: false,
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

/// Record that is waited for.
struct Record<'a> {
    fqdn: Name,
    value: &'a [u8],
}

impl Server {
    /// Looks at each interval until the record is there.
    async fn wait(&self, record: &Record<'_>, interval: Duration, until: Instant) -> Seen {
        let mut last = Seen::NoAnswer(format!("{} does not answer", self.name));
        loop {
            // An answer that is too late tells less than the one before it.
            if let Ok(seen) = timeout_at(until, self.look(record)).await {
                last = seen;
            }
            if matches!(last, Seen::Record) || Instant::now() + interval >= until {
                return last;
            }
            sleep(interval).await;
        }
    }

    /// Asks the addresses in turn until one answers.
    async fn look(&self, record: &Record<'_>) -> Seen {
        let mut question = question(&record.fqdn, RecordType::TXT);
        question.metadata.recursion_desired = self.is_named;
        let mut why = format!("{} has no address", self.name);
        for address in &self.addresses {
            match send(*address, &question, TRY).await {
                Ok((answer, _)) => match answer.metadata.response_code {
                    ResponseCode::NoError | ResponseCode::NXDomain => {
                        let mut records = answer.answers.iter();
                        return match records.any(|one| record.is_it(&one.data)) {
                            true => Seen::Record,
                            false => Seen::Nothing,
                        };
                    }
                    code => why = format!("{} ({address}): {code}", self.name),
                },
                Err(no) => why = format!("{} ({address}): {no}", self.name),
            }
        }
        Seen::NoAnswer(why)
    }
}

impl Record<'_> {
    fn is_it(&self, data: &RData) -> bool {
        matches!(data, RData::TXT(text) if text.txt_data.concat() == self.value)
    }
}

/// Time between two words on a wait.
const TOLD: Duration = Duration::from_secs(10);
/// The root zone has 13.
const MAX_SERVERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::{Exec, Writer};
    use super::*;

    fn settings(check: Check) -> Settings {
        let writer = Writer::Exec(Exec::new("/bin/true".into(), Vec::new()));
        Settings {
            check,
            ..Settings::new(writer)
        }
    }

    async fn waited(settings: &Settings, waits: &Waits) -> (Result<(), Fault>, Duration) {
        let presented = Presented {
            fqdn: "_acme-challenge.a.example.".into(),
            zone: "example.".into(),
            value: "text".into(),
        };
        let begun = Instant::now();
        let waited = wait(settings, &presented, waits).await;
        (waited, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_check_all_of_the_time_passes_and_is_told() {
        let waits = Waits::default();
        let mut settings = settings(Check::Off);
        settings.propagation = Duration::from_secs(45);
        let (done, took) = waited(&settings, &waits).await;
        done.unwrap();
        assert_eq!(took, settings.propagation);
        let last = waits.borrow().as_ref().unwrap().to_string();
        let expected = "_acme-challenge.a.example.: the TXT record is written, and not checked; \
                        waiting for 5 s more";
        assert_eq!(last, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_the_record_is_told_each_ten_seconds() {
        let waits = Waits::default();
        // Nothing listens there.
        let at = Check::At(vec!["127.0.0.1:9".parse().unwrap()]);
        let mut settings = settings(at);
        settings.propagation = Duration::from_secs(25);
        let (done, _) = waited(&settings, &waits).await;
        let why = done.unwrap_err().to_string();
        assert!(
            why.starts_with("after 25 s, 0 of 1 servers have the record: 127.0.0.1:9"),
            "{why}"
        );
        let last = waits.borrow().clone().unwrap();
        assert_eq!(
            (last.servers, last.left),
            (Some((0, 1)), Duration::from_secs(5))
        );
    }
}
