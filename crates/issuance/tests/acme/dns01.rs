//! DNS-01 with Knot: where records go, who writes them, and when they are there.

mod exec;
mod locate;
mod order;
mod propagation;
mod rfc2136;
mod webhook;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::rr::{RData, RecordType};
use sekisho_certs::{Clock, HostPattern};
use sekisho_dns::Resolver;
use sekisho_issuance::solver::dns01::{
    Dns01, Presented, Rfc2136, Settings, TsigKey, Waits, Writer,
};
use sekisho_testkit::services::{Knot, Zone};

const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cyB0aGF0IGlzIGxvbmcgZW5vdWdo";
const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Starts Knot with one zone, `example.test`, and these records.
fn knot(records: &str) -> Knot {
    let records = format!("@ NS ns\nns A 127.0.0.1\n{records}");
    let zone = Zone {
        name: "example.test",
        records: &records,
        key: "acme",
    };
    Knot::start(LOCALHOST, &[("hmac-sha256", "acme", SECRET)], &[zone])
}

/// Settings whose resolver and authoritative servers are Knot.
fn settings(knot: &Knot, writer: Writer) -> Settings {
    Settings {
        resolver: Resolver::new(&[knot.address()]),
        port: knot.address().port(),
        deadline: PATIENCE,
        propagation: PATIENCE,
        interval: Duration::from_millis(5),
        ..Settings::new(writer)
    }
}

fn rfc2136(server: SocketAddr, key: &str) -> Writer {
    Writer::Rfc2136(Box::new(Rfc2136 {
        server,
        key: TsigKey::parse(key).unwrap(),
        clock: Clock::System,
    }))
}

/// Makes a solver that writes to Knot with its key.
fn solver(knot: &Knot) -> Dns01 {
    let key = format!("acme:{SECRET}");
    Dns01::new(
        settings(knot, rfc2136(knot.address(), &key)),
        Waits::default(),
    )
}

fn pattern(name: &str) -> HostPattern {
    HostPattern::parse(name).unwrap()
}

fn presented(value: &str) -> Presented {
    Presented {
        fqdn: "_acme-challenge.a.example.test.".into(),
        zone: "example.test.".into(),
        value: value.into(),
    }
}

/// Returns the texts at a name, sorted.
async fn texts(knot: &Knot, name: &str) -> Vec<String> {
    let resolver = Resolver::new(&[knot.address()]);
    let records = resolver.records(name, RecordType::TXT).await.unwrap();
    let text = |data: &RData| match data {
        RData::TXT(text) => String::from_utf8(text.txt_data.concat()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut texts: Vec<_> = records.iter().map(text).collect();
    texts.sort();
    texts
}

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bound for what never happens.
const SHORT: Duration = Duration::from_millis(100);
