//! Lookups for the hook and for sites, beside those of visitors.

use super::*;
use crate::lookup::hook::Clients;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl World {
    fn clients(&self, limits: &Limits) -> Clients {
        Clients::new(&self.hosts.lookup, limits)
    }

    /// Begins the lookup of a site, which names a client certificate.
    fn ask_stored(&self, name: &str) -> JoinHandle<Outcome<VirtualHost>> {
        let (hosts, name) = (Arc::clone(&self.hosts), HostName::parse(name).unwrap());
        let deadline = Instant::now() + HANDSHAKE;
        tokio::spawn(async move { hosts.ask_stored(&name, CLIENT.into(), deadline).await })
    }
}

/// Begins the lookup of a script.
fn look_up(clients: &Clients, name: &str) -> JoinHandle<Outcome<VirtualHost>> {
    let (clients, name) = (clients.clone(), HostName::parse(name).unwrap());
    tokio::spawn(async move { clients.lookup(&name, CLIENT).await })
}

fn is_absent(outcome: &Outcome<VirtualHost>) -> bool {
    matches!(outcome, Outcome::Absent(_))
}

fn is_found(outcome: &Outcome<VirtualHost>) -> bool {
    matches!(outcome, Outcome::Found(_))
}

#[tokio::test(start_paused = true)]
async fn a_script_a_site_and_a_visitor_share_one_read() {
    for first in 0..3 {
        let pair = TestCa::new().issue(&["a.test"], Key::P256);
        let world = World::new([store::host("a.test", &[(&pair, Key::P256)])]);
        let clients = world.clients(&LIMITS);
        world.store.hold();
        let mut waits = Vec::new();
        for caller in 0..3 {
            waits.push(match (first + caller) % 3 {
                0 => look_up(&clients, "a.test"),
                1 => world.ask_stored("a.test"),
                _ => world.ask("a.test"),
            });
            run().await;
        }
        world.store.unhold();
        for wait in waits {
            assert!(is_found(&wait.await.unwrap()));
        }
        assert_eq!((world.store.calls(), world.issuer.calls()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_visitor_that_joins_a_scripts_read_gets_a_certificate() {
    let world = World::new([bare("a.test", "customer")]);
    let clients = world.clients(&LIMITS);
    world.store.hold();
    let script = look_up(&clients, "a.test");
    run().await;
    let visitor = world.ask("a.test");
    run().await;
    world.store.unhold();
    assert!(is_absent(&script.await.unwrap()));
    world.obtains(1).await;
    // A script and a site have the absence that was read, and wait for no certificate.
    assert!(is_absent(&look_up(&clients, "a.test").await.unwrap()));
    assert!(is_absent(&world.ask_stored("a.test").await.unwrap()));
    assert_eq!(world.store.calls(), 1);
    world.issuer.release(1);
    assert!(is_found(&visitor.await.unwrap()));
    assert_eq!((world.store.calls(), world.issuer.calls()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_script_and_a_site_obtain_nothing_and_know_each_others_absence() {
    let world = World::new([bare("a.test", "customer"), bare("b.test", "customer")]);
    let clients = world.clients(&LIMITS);
    for _ in 0..2 {
        assert!(is_absent(&look_up(&clients, "a.test").await.unwrap()));
        assert!(is_absent(&world.ask_stored("a.test").await.unwrap()));
        assert!(is_absent(&world.ask_stored("b.test").await.unwrap()));
        assert!(is_absent(&look_up(&clients, "b.test").await.unwrap()));
        let a = HostName::parse("a.test").unwrap();
        assert!(is_absent(&clients.cached(&a).unwrap()));
    }
    run().await;
    assert_eq!((world.store.calls(), world.issuer.calls()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_scripts_client_is_charged_for_its_read_alone() {
    let limits = Limits {
        absent_per_prefix: 1,
        ..LIMITS
    };
    let world = World::limited(&limits, [bare("a.test", "customer")]);
    let clients = world.clients(&limits);
    world.store.hold();
    let script = look_up(&clients, "a.test");
    run().await;
    let (visitor, joins) = (world.ask("a.test"), look_up(&clients, "a.test"));
    run().await;
    // The caller that began the read leaves. The read goes on, and is charged to the
    // network of that caller.
    script.abort();
    world.store.unhold();
    assert!(is_absent(&joins.await.unwrap()));
    world.obtains(1).await;
    let over = look_up(&clients, "c.test").await.unwrap();
    assert!(
        matches!(error(&over), Some(LookupError::OverBudget)),
        "{over:?}"
    );
    // The visitor only joined: their network has its token.
    assert!(is_absent(&world.ask_stored("d.test").await.unwrap()));
    world.issuer.release(1);
    assert!(is_found(&visitor.await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_lookup_of_what_is_stored_ends_in_time_and_its_read_goes_on() {
    let world = World::new([bare("a.test", "customer")]);
    let clients = world.clients(&LIMITS);
    world.store.hold();
    let begun = Instant::now();
    let (script, site) = (look_up(&clients, "a.test"), world.ask_stored("a.test"));
    assert!(is_late(&script.await.unwrap()));
    assert!(is_late(&site.await.unwrap()));
    assert_eq!(begun.elapsed(), HANDSHAKE);
    world.store.unhold();
    run().await;
    assert!(is_absent(&world.ask_stored("a.test").await.unwrap()));
    assert_eq!(world.store.calls(), 1);
}
