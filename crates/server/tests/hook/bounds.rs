//! Tests of what a hook may cost: time of others, and the budget of its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sekisho_certs::obtain::Obtained;
use sekisho_certs::{Absence, LookupError, Outcome};
use sekisho_server::Limits;
use sekisho_server::hook::{Answer, Choice};
use sekisho_testkit::{Issuer, client};
use tokio::time::Instant;

use crate::common::metrics::counted;
use crate::common::{LIMITS, Setup, alert};
use crate::world::{World, answer, name};

#[tokio::test]
async fn a_slow_hook_delays_its_own_handshake_until_the_deadline() {
    let limits = Limits {
        handshake: Duration::from_secs(2),
        ..LIMITS
    };
    let world = Arc::new(World::with(&["a.example"], Setup::limits(limits), |_| {}));
    let mut kept = world.visit("a.example", true).await;
    world.hook.hold();
    let (begun, slow) = (Instant::now(), Arc::clone(&world));
    let slow = tokio::spawn(async move { alert(&slow.running, "a.example", slow.config()).await });
    // Connections that the hook is not asked for go on meanwhile.
    while world.hook.calls() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(kept.get("a.example").await.0, 308);
    assert!(!slow.is_finished());
    let text = slow.await.unwrap();
    assert!(text.contains("InternalError"), "{text}");
    assert!(begun.elapsed() >= limits.handshake);
    counted(&world.running, "hook_failed", 1).await;
    // A request waits as long for the hook, and keeps its connection.
    assert_eq!(kept.get("b.example").await.0, 503);
    world.hook.unhold();
    assert_eq!(kept.get("a.example").await.0, 308);
}

#[tokio::test]
async fn a_client_that_leaves_ends_no_more_than_its_handshake() {
    let world = World::new(&["a.example"]);
    world.hook.hold();
    let leaving = client::connect(world.running.address, "a.example", world.config());
    let leaving = tokio::time::timeout(Duration::from_millis(200), leaving);
    assert!(leaving.await.is_err(), "held");
    assert_eq!(world.hook.calls(), 1);
    world.hook.unhold();
    counted(&world.running, "aborted", 1).await;
    let got = world.visit("a.example", false).await.get("a.example").await;
    assert_eq!(got, (308, "a.example".into()));
}

/// Calls of the hook that led to nothing are charged, each once.
#[tokio::test]
async fn what_leads_to_nothing_is_charged() {
    let world = World::with(&["a.example"], Setup::default(), |_| {});
    let charged = Arc::new(AtomicUsize::new(0));
    let with = |choice: fn() -> Choice| {
        let charged = Arc::clone(&charged);
        world.hook.answers(move |_| {
            let charged = Arc::clone(&charged);
            Answer {
                charge: Some(Box::new(move || {
                    charged.fetch_add(1, Ordering::SeqCst);
                })),
                ..answer(choice())
            }
        });
    };
    for (choice, times) in [
        ((|| Choice::Refuse(49)) as fn() -> Choice, 1),
        (|| Choice::Default, 1),
        (|| Choice::Lookup, 0),
        // The load is charged with the absence itself.
        (|| Choice::Use(name("absent.example")), 0),
        // From memory, the absence costs no load: only the calls of the hook.
        (|| Choice::Use(name("absent.example")), 1),
    ] {
        with(choice);
        charged.store(0, Ordering::SeqCst);
        let _ = client::connect(world.running.address, "a.example", world.config()).await;
        assert_eq!(charged.load(Ordering::SeqCst), times);
    }
}

#[tokio::test]
async fn a_prefix_over_its_budget_gets_no_token() {
    let limits = Limits {
        absent_per_prefix: 2,
        ..LIMITS
    };
    let world = World::with(&["a.example"], Setup::limits(limits), |_| {});
    let (clients, client) = (&world.hook.clients, "127.0.0.1".parse().unwrap());
    let soon = || Instant::now() + Duration::from_millis(100);
    for _ in 0..5 {
        drop(clients.admit(client, soon()).await.unwrap());
    }
    clients.admit(client, soon()).await.unwrap().spend();
    let absent = clients.lookup(&name("absent.example"), client).await;
    assert!(matches!(absent, Outcome::Absent(Absence::NoHost)));
    // A cached answer costs nothing.
    let again = clients.lookup(&name("absent.example"), client).await;
    assert!(matches!(again, Outcome::Absent(Absence::NoHost)));
    let denied = clients.admit(client, soon()).await;
    assert!(matches!(denied, Err(LookupError::OverBudget)));
    let other = "192.0.2.1".parse().unwrap();
    assert!(clients.admit(other, soon()).await.is_ok());
    // The server's own loads have that budget too.
    let before = world.running.store.calls();
    let text = alert(&world.running, "b.example", world.config()).await;
    assert!(text.contains("InternalError"), "{text}");
    assert_eq!(world.running.store.calls(), before);
    counted(&world.running, "overloaded", 1).await;
}

#[tokio::test]
async fn a_lookup_of_the_hook_tells_absent_from_failed() {
    let world = World::new(&["a.example"]);
    let (clients, client) = (&world.hook.clients, "127.0.0.1".parse().unwrap());
    let found = clients.lookup(&name("a.example"), client).await;
    assert!(matches!(found, Outcome::Found(_)));
    let calls = world.running.store.calls();
    // Handshakes use what the lookup has cached, and the other way round.
    let got = world.visit("a.example", false).await.get("a.example").await;
    assert_eq!(got.0, 308);
    assert_eq!(world.running.store.calls(), calls);
    world.running.store.fail(true);
    let failed = clients.lookup(&name("b.example"), client).await;
    assert!(matches!(failed, Outcome::Failed(_)));
    world.running.store.fail(false);
    let absent = clients.lookup(&name("b.example"), client).await;
    assert!(matches!(absent, Outcome::Absent(Absence::NoHost)));
}

/// Where certificates are obtained on first access, a lookup of the hook obtains none.
#[tokio::test]
async fn a_lookup_of_the_hook_obtains_no_certificate() {
    let issuer = Arc::new(Issuer::new(|_, _| panic!("nothing is obtained")));
    let setup = Setup {
        obtain: Arc::clone(&issuer) as _,
        ..Setup::default()
    };
    let world = World::with(&["a.example"], setup, |_| {});
    let client = "127.0.0.1".parse().unwrap();
    world.running.store.hold();
    let lookups = ["a.example"; 20].into_iter().chain(["b.example"; 20]);
    let lookups: Vec<_> = lookups
        .map(|host| {
            let clients = world.hook.clients.clone();
            tokio::spawn(async move { clients.lookup(&name(host), client).await })
        })
        .collect();
    while world.running.store.calls() < 2 {
        tokio::task::yield_now().await;
    }
    // A client that leaves ends the read for nobody.
    lookups[0].abort();
    lookups[20].abort();
    world.running.store.unhold();
    for (number, outcome) in lookups.into_iter().enumerate() {
        match outcome.await {
            Ok(Outcome::Found(_)) => assert!(number < 20),
            Ok(Outcome::Absent(Absence::NoHost)) => assert!(number > 20),
            Ok(other) => panic!("{number}: {other:?}"),
            Err(aborted) => assert!(aborted.is_cancelled() && number % 20 == 0),
        }
    }
    assert_eq!(world.running.store.calls(), 2, "one read for each name");
    assert_eq!(issuer.calls(), 0);
    // An absence is remembered until the host is there.
    let clients = &world.hook.clients;
    let look_up = async || clients.lookup(&name("b.example"), client).await;
    for _ in 0..5 {
        assert!(matches!(look_up().await, Outcome::Absent(Absence::NoHost)));
    }
    assert_eq!(world.running.store.calls(), 2);
    world.running.store.put(world.record("b.example"));
    world.change(1, "b.example");
    assert!(matches!(look_up().await, Outcome::Found(_)));
    assert_eq!(issuer.calls(), 0);
}

/// An absence that a lookup of the hook remembers keeps no visitor from a certificate.
#[tokio::test]
async fn an_absence_of_the_hooks_lookup_obtains_a_certificate_for_a_visitor() {
    let issuer = Arc::new(Issuer::new(|_, _| Obtained::Refused { retry_after: None }));
    let setup = Setup {
        obtain: Arc::clone(&issuer) as _,
        ..Setup::default()
    };
    let world = World::with(&["a.example"], setup, |_| {});
    let client = "127.0.0.1".parse().unwrap();
    let absent = world.hook.clients.lookup(&name("b.example"), client).await;
    assert!(matches!(absent, Outcome::Absent(Absence::NoHost)));
    let text = alert(&world.running, "b.example", world.config()).await;
    assert!(text.contains("UnrecognisedName"), "{text}");
    assert_eq!(issuer.calls(), 1);
}
