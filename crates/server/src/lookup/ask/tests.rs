#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sekisho_certs::{Found, LookupSettings, OpenKey, Store};
use sekisho_testkit::{Issuer, Key, Scripted, TestCa};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

use self::store::{bare, issuer};
use super::*;
use crate::limits::settings::{CertificateWaits, Limits};
use crate::lookup::tickets::Ring;
use crate::lookup::virtual_host::Publisher;
use crate::site::{Guard, Site};

mod flights;

#[path = "../../../tests/common/store.rs"]
#[allow(missing_docs, unreachable_pub)]
mod store;

const SECOND: Duration = Duration::from_secs(1);
/// `[server] handshake_timeout`.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Lookups of many clients, and an issuance that stores a certificate for each
/// host below `test` once it is released.
struct World {
    store: Arc<Scripted>,
    issuer: Arc<Issuer>,
    hosts: Arc<Hosts>,
}

impl World {
    fn new(hosts: impl IntoIterator<Item = Found<OpenKey>>) -> Self {
        Self::limited(&LIMITS, hosts)
    }

    fn limited(limits: &Limits, hosts: impl IntoIterator<Item = Found<OpenKey>>) -> Self {
        let store = Arc::new(Scripted::new(hosts));
        let issuer = issuer(&store, TestCa::new().issue(&["*.test"], Key::P256));
        let day = Duration::from_secs(86_400);
        let settings = LookupSettings {
            memory: 16 << 20,
            fresh: day,
            absent: day,
        };
        let guard = Arc::new(Guard::default());
        let publisher = Publisher::new(Arc::new(Ring::random()), Site::not_found(), guard);
        let asked: Arc<dyn Store> = store.clone();
        let publish = move |host: &Arc<_>| publisher.publish(host);
        Self {
            hosts: Arc::new(Hosts {
                lookup: Lookup::new(asked, &settings, issuer.clone(), publish),
                budget: Arc::new(Budget::new(limits)),
                metrics: Arc::default(),
                lookup_limit: HANDSHAKE,
                log_limits: Arc::default(),
            }),
            store,
            issuer,
        }
    }

    /// Begins the lookup of a client that has [`HANDSHAKE`] for it.
    fn ask(&self, name: &str) -> JoinHandle<Outcome<VirtualHost>> {
        let (hosts, name) = (Arc::clone(&self.hosts), HostName::parse(name).unwrap());
        tokio::spawn(async move {
            let prefix = IpAddr::from(Ipv4Addr::LOCALHOST).into();
            let mut deadline = Instant::now() + HANDSHAKE;
            let asked = hosts.outcome(&name, prefix, &mut deadline, None);
            asked.await.0
        })
    }

    async fn ask_any(&self, name: &str) -> Result<FoundHost, Unfound> {
        let name = HostName::parse(name).unwrap();
        let prefix = IpAddr::from(Ipv4Addr::LOCALHOST).into();
        let deadline = Instant::now() + HANDSHAKE;
        self.hosts.ask_any(&name, prefix, deadline).await
    }

    /// Waits until the issuance was called this often.
    async fn obtains(&self, calls: usize) {
        while self.issuer.calls() < calls {
            yield_now().await;
        }
        run().await;
    }
}

/// Lets all tasks go on as far as they come.
async fn run() {
    for _ in 0..200 {
        yield_now().await;
    }
}

fn error(outcome: &Outcome<VirtualHost>) -> Option<&LookupError> {
    match outcome {
        Outcome::Failed(error) => Some(error),
        _ => None,
    }
}

const LIMITS: Limits = Limits {
    workers: 1,
    connections: 4096,
    handshake: HANDSHAKE,
    head: SECOND,
    idle: SECOND,
    body: SECOND,
    drain: SECOND,
    host_look: SECOND,
    absent_per_prefix: 10_000,
    loads: 256,
    loads_per_prefix: 64,
    loads_waiting: 4096,
    certificates: CertificateWaits {
        waiting: 1000,
        time: Duration::from_secs(20),
    },
};

fn is_late(outcome: &Outcome<VirtualHost>) -> bool {
    matches!(error(outcome), Some(LookupError::Late))
}

#[tokio::test(start_paused = true)]
async fn a_certificate_has_longer_than_a_store_call() {
    let world = World::new([bare("a.test", "customer"), bare("b.test", "customer")]);
    let begun = Instant::now();
    world.store.hold();
    assert!(is_late(&world.ask("b.test").await.unwrap()));
    assert_eq!(begun.elapsed(), HANDSHAKE);
    world.store.unhold();
    let first = world.ask("a.test");
    world.obtains(2).await;
    advance(15 * SECOND).await;
    let joins = world.ask("a.test");
    run().await;
    assert!(!first.is_finished());
    world.issuer.release(2);
    for wait in [first, joins] {
        assert!(matches!(wait.await.unwrap(), Outcome::Found(_)));
    }
    assert_eq!(begun.elapsed(), 25 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_certificate_counts_from_its_beginning() {
    let world = World::new([bare("a.test", "customer")]);
    let begun = Instant::now();
    world.store.hold();
    let first = world.ask("a.test");
    run().await;
    advance(9 * SECOND).await;
    world.store.unhold();
    world.obtains(1).await;
    advance(19 * SECOND).await;
    let joins = world.ask("a.test");
    run().await;
    assert!(!first.is_finished());
    assert!(is_late(&first.await.unwrap()));
    assert_eq!(begun.elapsed(), 29 * SECOND);
    assert!(is_late(&joins.await.unwrap()));
    assert_eq!(begun.elapsed(), 48 * SECOND, "20 s for who joined at 28 s");
    world.issuer.release(1);
    run().await;
    let name = HostName::parse("a.test").unwrap();
    let cached = world.hosts.lookup.cached(&name);
    assert!(matches!(cached, Cached::Hit(Outcome::Found(_))));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_places_an_order_goes_on_without_its_client() {
    let names: Vec<_> = (0..=1000).map(|number| format!("h{number}.test")).collect();
    let world = World::new(names.iter().map(|name| bare(name, "customer")));
    let waits: Vec<_> = names[..1000].iter().map(|name| world.ask(name)).collect();
    world.obtains(1000).await;
    let last = world.ask(&names[1000]).await.unwrap();
    assert!(
        matches!(error(&last), Some(LookupError::Crowded)),
        "{last:?}"
    );
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    world.issuer.release(1001);
    for wait in waits {
        assert!(matches!(wait.await.unwrap(), Outcome::Found(_)));
    }
    run().await;
    let name = HostName::parse(&names[1000]).unwrap();
    let cached = world.hosts.lookup.cached(&name);
    assert!(matches!(cached, Cached::Hit(Outcome::Found(_))));
    assert_eq!(world.issuer.calls(), 1001);
}

#[tokio::test(start_paused = true)]
async fn joiners_take_places_too_and_who_leaves_frees_one() {
    let world = World::new([bare("a.test", "customer"), bare("b.test", "customer")]);
    let waits: Vec<_> = (0..1000).map(|_| world.ask("a.test")).collect();
    world.obtains(1).await;
    let crowded = |outcome: &_| matches!(error(outcome), Some(LookupError::Crowded));
    assert!(crowded(&world.ask("a.test").await.unwrap()));
    assert!(crowded(&world.ask("b.test").await.unwrap()));
    waits[500].abort();
    run().await;
    let joins = world.ask("b.test");
    run().await;
    world.issuer.release(2);
    assert!(matches!(joins.await.unwrap(), Outcome::Found(_)));
    assert_eq!(world.issuer.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_all_places_makes_room_for_another() {
    let names: Vec<_> = (0..1000).map(|number| format!("h{number}.test")).collect();
    let hosts = names.iter().map(|name| bare(name, "large"));
    let world = World::new(hosts.chain([bare("a.test", "small"), bare("b.test", "small")]));
    let large: Vec<_> = names.iter().map(|name| world.ask(name)).collect();
    world.obtains(1000).await;
    let small = [world.ask("a.test"), world.ask("b.test")];
    world.obtains(1002).await;
    let refused = large.iter().filter(|wait| wait.is_finished()).count();
    assert_eq!(refused, 2);
    let more = world.ask("h0.test").await.unwrap();
    assert!(
        matches!(error(&more), Some(LookupError::Crowded)),
        "the large one takes no place of the small one's: {more:?}"
    );
    world.issuer.release(1002);
    for wait in small {
        assert!(matches!(wait.await.unwrap(), Outcome::Found(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn names_without_a_record_share_the_places_of_one_tenant() {
    let world = World::new([bare("a.test", "customer")]);
    let unknown = |number| world.ask(&format!("u{number}.test"));
    let waits: Vec<_> = (0..1000).map(unknown).collect();
    world.obtains(1000).await;
    let known = world.ask("a.test");
    world.obtains(1001).await;
    assert!(!known.is_finished());
    assert_eq!(waits.iter().filter(|wait| wait.is_finished()).count(), 1);
    let last = unknown(1000).await.unwrap();
    assert!(
        matches!(error(&last), Some(LookupError::Crowded)),
        "{last:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_certificate_is_charged_to_the_prefix() {
    let limits = Limits {
        absent_per_prefix: 3,
        ..LIMITS
    };
    let names = ["a.test", "b.test", "c.test", "d.test"];
    let world = World::limited(&limits, names.map(|name| bare(name, "customer")));
    let waits = [0, 1, 2].map(|name| world.ask(names[name]));
    world.obtains(3).await;
    let last = world.ask(names[3]).await.unwrap();
    assert!(
        matches!(error(&last), Some(LookupError::OverBudget)),
        "{last:?}"
    );
    assert!(!waits.iter().any(JoinHandle::is_finished));
    assert_eq!(world.issuer.calls(), 3);
}

/// Visitors of hosts without a certificate must not spend what unknown names cost.
#[tokio::test(start_paused = true)]
async fn plain_http_is_charged_for_names_that_are_not_here() {
    let limits = Limits {
        absent_per_prefix: 3,
        ..LIMITS
    };
    let names = ["a.test", "b.test", "c.test", "d.test", "e.test"];
    let mut disabled = bare("off.test", "customer");
    disabled.record.disabled = true;
    let hosts = names.map(|name| bare(name, "customer"));
    let world = World::limited(&limits, hosts.into_iter().chain([disabled]));
    for _ in 0..2 {
        for name in names {
            let found = world.ask_any(name).await.ok().unwrap();
            assert!(!found.served.is_certified());
        }
        assert_eq!(world.store.calls(), names.len());
    }
    for (name, absence) in [
        ("off.test", Absence::Disabled),
        ("x.test", Absence::NoHost),
        ("y.test", Absence::NoHost),
    ] {
        let unfound = world.ask_any(name).await.err().unwrap();
        assert_eq!(unfound.absence, Some(absence));
    }
    let unfound = world.ask_any("z.test").await.err().unwrap();
    assert!(unfound.absence.is_none());
    assert!(matches!(unfound.lookup, LookupResult::OverBudget));
    assert!(world.ask_any("a.test").await.is_ok());
    assert_eq!(world.issuer.calls(), 0);
}

/// A client can make names up below a wildcard, each of which has a certificate ordered.
#[tokio::test(start_paused = true)]
async fn certificates_beside_plain_http_are_charged_to_the_prefix() {
    let limits = Limits {
        absent_per_prefix: 3,
        ..LIMITS
    };
    let mut wildcard = bare("*.test", "customer");
    wildcard.shadowed = false;
    let world = World::limited(&limits, [wildcard]);
    let prefix = IpAddr::from(Ipv4Addr::LOCALHOST).into();
    for number in 0..10 {
        let text = format!("r{number}.test");
        assert!(world.ask_any(&text).await.is_ok(), "{text}");
        let name = HostName::parse(&text).unwrap();
        world.hosts.obtain_beside(&name, prefix);
        run().await;
    }
    assert_eq!(world.issuer.calls(), 3);
    // One read for all requests, and one for each order.
    assert_eq!(world.store.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn plain_http_waits_for_the_store_until_its_deadline() {
    let world = World::new([bare("a.test", "customer")]);
    let begun = Instant::now();
    world.store.hold();
    let unfound = world.ask_any("a.test").await.err().unwrap();
    assert!(unfound.absence.is_none());
    assert_eq!(begun.elapsed(), HANDSHAKE);
    world.store.unhold();
    assert!(world.ask_any("a.test").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_obtained_beside_plain_http() {
    let world = World::new([bare("a.test", "customer")]);
    let name = HostName::parse("a.test").unwrap();
    let prefix = IpAddr::from(Ipv4Addr::LOCALHOST).into();
    for _ in 0..3 {
        assert!(world.ask_any("a.test").await.is_ok());
        world.hosts.obtain_beside(&name, prefix);
        world.obtains(1).await;
    }
    assert_eq!(world.issuer.calls(), 1);
    world.issuer.release(1);
    run().await;
    let found = world.ask_any("a.test").await.ok().unwrap();
    assert!(found.served.is_certified());
    world.hosts.obtain_beside(&name, prefix);
    run().await;
    assert_eq!(world.issuer.calls(), 1);
}
