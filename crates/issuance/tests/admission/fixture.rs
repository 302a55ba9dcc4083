//! Fixture of the tests: settings, a decision for a name, and time that passes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sekisho_certs::{HostName, HostPattern, HostRecord, Tenant};
use sekisho_issuance::acme::Meta;
use sekisho_issuance::admission::{Admission, Decision, FirstAccess, Settings};
use sekisho_testkit::services::Pebble;
use sekisho_testkit::{Endpoint, Speaks};

/// Address that names must lead to. The challenge server answers 127.0.0.1 for
/// each name that it was told nothing of.
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

pub(crate) fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

pub(crate) fn record(pattern: &str, tenant: &str) -> HostRecord {
    let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    record.tenant = Tenant::parse(tenant).unwrap();
    record
}

/// Decides for a name with a record of its own.
pub(crate) async fn decide(admission: &Admission, host: &str) -> Decision {
    let record = record(host, "acme");
    admission.decide(&name(host), Some(&record), &[]).await
}

/// Decides for a name that the store does not have.
pub(crate) async fn decide_unknown(admission: &Admission, host: &str) -> Decision {
    admission.decide(&name(host), None, &[]).await
}

pub(crate) fn ca(identities: &[&str]) -> Meta {
    Meta {
        caa_identities: identities.iter().map(ToString::to_string).collect(),
        ..Meta::default()
    }
}

/// Settings with this name server alone.
pub(crate) fn resolving_by(server: SocketAddr) -> Settings {
    Settings {
        resolvers: vec![server],
        ..Settings::default()
    }
}

pub(crate) fn dns_of(pebble: &Pebble) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, pebble.challenges().dns_port()).into()
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint::start(Speaks::Plain)
}

/// Settings under which an endpoint decides for all names.
pub(crate) fn asking(endpoint: &Endpoint) -> Settings {
    asking_at(endpoint.address)
}

pub(crate) fn asking_at(address: SocketAddr) -> Settings {
    Settings {
        first_access: FirstAccess::Ask,
        ask: Some(format!("http://{address}/check")),
        ..Settings::default()
    }
}

/// Lets time pass, without waiting.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

pub(crate) fn is_allowed(decision: &Decision) -> bool {
    matches!(decision, Decision::Allowed(_))
}

/// Returns why a decision is a refusal, and for how many seconds it is remembered.
#[track_caller]
pub(crate) fn refused(decision: &Decision) -> (&str, Option<u64>) {
    match decision {
        Decision::Refused { why, retry_after } => (why, retry_after.map(rounded)),
        other => panic!("{other:?}"),
    }
}

/// Returns why a decision failed, and for how many seconds that is remembered.
#[track_caller]
pub(crate) fn failed(decision: &Decision) -> (&str, u64) {
    match decision {
        Decision::Failed { why, retry_after } => (why, rounded(*retry_after)),
        other => panic!("{other:?}"),
    }
}

fn rounded(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).try_into().unwrap()
}
