//! Propagation: time from the commit of a change to the handshakes that show
//! it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use rustls::pki_types::CertificateDer;
use tokio::time::sleep;

use super::{Sample, Subject};
use crate::compare::catalog::Changes;
use crate::compare::rows::figure;
use crate::fixtures::Folder;
use sekisho_bench::load::client::Client;
use sekisho_bench::tls::{Group, Offer, Trust};

impl Subject<'_> {
    /// Measures propagation. A client of each of three servers makes handshakes
    /// until one shows the new certificate.
    pub(super) async fn propagation(&mut self, changes: usize) -> Result<Sample> {
        let changes = self.effort(changes as u64) as usize;
        let mut servers = Vec::new();
        for number in 1..=SERVERS {
            servers.push(
                self.launch_as(&format!("{}-{number}", self.name), None, 1)
                    .await?,
            );
        }
        let offer = Offer {
            version: self.row.version,
            group: Group::X25519,
            trust: Trust::Anyone,
            resume: None,
        };
        let client = |number: usize| Client::new(servers[number].address, &offer, HANDSHAKE);
        let clients = [client(0)?, client(1)?, client(2)?];
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let fixture = self.place.workspace.fixture(self.row.key, hosts);
        let service = self.case.setup.service().context("a store elsewhere")?;
        let remote = self.place.services.remote(service, self.binary)?;
        let writer = Changes::open(&remote, Folder(&fixture)).await?;
        let mut seen = Seen::new()?;
        for number in 0..changes {
            let change = writer.prepare(number).await?;
            for client in &clients {
                // Each server caches the earlier state: a certificate, or the
                // host's absence.
                let _ = client.open(&change.host).await;
            }
            let (host, leaf) = (change.host.clone(), change.leaf.clone());
            let begun = Instant::now();
            writer.write(change).await?;
            let committed = Instant::now();
            let [one, two, three] = &clients;
            let shown = tokio::try_join!(
                shows(one, &host, &leaf),
                shows(two, &host, &leaf),
                shows(three, &host, &leaf),
            )?;
            seen.record(begun, committed, [shown.0, shown.1, shown.2]);
        }
        self.commands
            .push(format!("# {changes} changes, 1 of 5 a new host"));
        Ok(seen.figures())
    }
}

/// Returns when a handshake first showed this certificate.
pub(super) async fn shows(
    client: &Client,
    host: &str,
    leaf: &CertificateDer<'_>,
) -> Result<Instant> {
    let begin = Instant::now();
    while begin.elapsed() < BOUND {
        // A new host is refused until the change arrives.
        if let Ok(stream) = client.open(host).await {
            let met = stream.get_ref().1.peer_certificates();
            if met.and_then(|chain| chain.first()) == Some(leaf) {
                return Ok(Instant::now());
            }
        }
        sleep(PAUSE).await;
    }
    bail!(
        "a server does not show a change to {host} after {} s",
        BOUND.as_secs()
    );
}

/// Times of all changes in microseconds.
struct Seen {
    each: [Histogram<u64>; SERVERS],
    last: Histogram<u64>,
    from_before: Histogram<u64>,
    writes: Histogram<u64>,
}

impl Seen {
    fn new() -> Result<Self> {
        let empty = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
        Ok(Self {
            each: [empty.clone(), empty.clone(), empty.clone()],
            last: empty.clone(),
            from_before: empty.clone(),
            writes: empty,
        })
    }

    fn record(&mut self, begun: Instant, committed: Instant, shown: [Instant; SERVERS]) {
        let record = |into: &mut Histogram<u64>, from: Instant, to: Instant| {
            let micros = u64::try_from((to - from).as_micros()).unwrap_or(u64::MAX);
            into.saturating_record(micros);
        };
        let mut last = shown[0];
        for (histogram, shown) in self.each.iter_mut().zip(shown) {
            record(histogram, committed, shown);
            last = last.max(shown);
        }
        record(&mut self.last, committed, last);
        record(&mut self.from_before, begun, last);
        record(&mut self.writes, begun, committed);
    }

    fn figures(&self) -> Sample {
        let at =
            |histogram: &Histogram<u64>, share| histogram.value_at_quantile(share) as f64 / 1e3;
        let mut figures = vec![
            (figure::SEEN_P99, at(&self.last, 0.99)),
            (figure::SEEN_P50, at(&self.last, 0.5)),
            (figure::SEEN_MAX, at(&self.last, 1.0)),
        ];
        for (names, histogram) in figure::SEEN_EACH.iter().zip(&self.each) {
            let shares = [0.5, 0.99, 1.0].map(|share| at(histogram, share));
            figures.extend(names.iter().copied().zip(shares));
        }
        figures.push((figure::SENT_P99, at(&self.from_before, 0.99)));
        figures.push((figure::WRITE_P50, at(&self.writes, 0.5)));
        figures
    }
}

const SERVERS: usize = figure::SEEN_EACH.len();
/// Pause between two handshakes with one server: 500 per second cost it little.
const PAUSE: Duration = Duration::from_millis(1);
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Far more than the promised 100 ms.
const BOUND: Duration = Duration::from_secs(5);
