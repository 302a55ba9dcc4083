//! Tests of what handshakes get.

use std::net::SocketAddr;

use sekisho_server::hook::Choice;
use sekisho_server::network::Network;
use sekisho_testkit::client;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::common::metrics::{counted, figure};
use crate::common::{Setup, alert};
use crate::world::{World, failed, name};

#[tokio::test]
async fn the_hook_sees_the_hello() {
    let world = World::new(&["a.example"]);
    let mut config = world.config();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"other".to_vec()];
    let socket = TcpStream::connect(world.running.address).await.unwrap();
    let own = socket.local_addr().unwrap();
    let stream = client::handshake(socket, "A.example", config).await;
    drop(stream.unwrap());
    let [question] = &world.hook.asked()[..] else {
        panic!("one question");
    };
    assert_eq!(question.server_name, Some(name("a.example")));
    let facts = &question.facts;
    assert_eq!((facts.client, facts.local), (own, world.running.address));
    let alpn: Vec<_> = facts.alpn.iter().map(|protocol| &**protocol).collect();
    assert_eq!(alpn, [&b"http/1.1"[..], b"other"]);
    assert!(facts.cipher_suites.contains(&0x1301), "{facts:?}");
    assert!(facts.signature_schemes.contains(&0x0403), "{facts:?}");
    assert!(facts.named_groups.contains(&0x001d), "{facts:?}");
}

#[tokio::test]
async fn the_client_is_the_one_behind_the_proxy() {
    let mut setup = Setup::default();
    let proxy = Network::parse("127.0.0.1").unwrap();
    setup.settings.proxies = [proxy].into_iter().collect();
    let world = World::with(&["a.example"], setup, |_| {});
    let mut socket = TcpStream::connect(world.running.address).await.unwrap();
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n";
    socket.write_all(header).await.unwrap();
    let stream = client::handshake(socket, "a.example", world.config()).await;
    drop(stream.unwrap());
    let client: SocketAddr = "192.0.2.7:4711".parse().unwrap();
    assert_eq!(world.hook.asked()[0].facts.client, client);
}

#[tokio::test]
async fn each_choice_leads_to_its_host() {
    let world = World::with(
        &["a.example", "b.example", "c.example"],
        Setup::with_default("c.example"),
        |_| {},
    );
    let made = world.made("", Some("key"));
    for h2 in [false, true] {
        world.hook.chooses(|_| Choice::Lookup);
        let got = world.visit("a.example", h2).await.get("a.example").await;
        assert_eq!(got, (308, "a.example".into()));
        world.hook.chooses(|_| Choice::Use(name("b.example")));
        let got = world.visit("a.example", h2).await.get("a.example").await;
        assert_eq!(got, (308, "b.example".into()));
        world.hook.chooses(|_| Choice::Default);
        let got = world.visit("a.example", h2).await.get("a.example").await;
        assert_eq!(got, (308, "c.example".into()));
        let made = made.clone();
        world.hook.chooses(move |_| Choice::Made(made.clone()));
        // The store has no such host.
        let got = world.visit("d.wild.example", h2).await;
        let got = { got }.get("d.wild.example").await;
        assert_eq!(got, (308, "made".into()));
    }
    let by_hook = figure(&world.running, "sekisho_lookups_total{outcome=\"hook\"}").await;
    assert_eq!(by_hook, 2);
    counted(&world.running, "full", 8).await;
}

#[tokio::test]
async fn a_client_without_a_name_gets_the_hooks_choice() {
    let world = World::new(&["a.example", "b.example"]);
    let mut config = world.config();
    config.enable_sni = false;
    let text = alert(&world.running, "b.example", config.clone()).await;
    assert!(text.contains("MissingExtension"), "{text}");
    assert_eq!(world.hook.asked()[0].server_name, None);
    world.hook.chooses(|question| match &question.server_name {
        None => Choice::Use(name("b.example")),
        Some(_) => Choice::Lookup,
    });
    let mut visit = world.visit_as("b.example", config.clone()).await;
    // A request names its host, and the hook chooses for that name.
    assert_eq!(visit.get("b.example").await, (308, "b.example".into()));
    assert_eq!(visit.get("a.example").await, (308, "a.example".into()));
    assert_eq!(visit.get("c.example").await.0, 421);
    let made = world.made("", None);
    world
        .hook
        .chooses(move |question| match &question.server_name {
            None => Choice::Made(made.clone()),
            Some(_) => Choice::Lookup,
        });
    let mut visit = world.visit_as("a.example", config).await;
    assert_eq!(visit.get("a.example").await, (308, "a.example".into()));
}

#[tokio::test]
async fn a_refusal_is_the_alert_of_the_choice() {
    let world = World::new(&["a.example"]);
    for (code, text) in [
        (49, "AccessDenied"),
        (112, "UnrecognisedName"),
        (80, "InternalError"),
    ] {
        world.hook.chooses(move |_| Choice::Refuse(code));
        let got = alert(&world.running, "a.example", world.config()).await;
        assert!(got.contains(text), "{got}");
    }
    counted(&world.running, "hook_refused", 3).await;
    assert_eq!(world.running.store.calls(), 0, "nothing is looked up");
    world.hook.chooses(|_| Choice::Default);
    let got = alert(&world.running, "a.example", world.config()).await;
    assert!(got.contains("UnrecognisedName"), "no default: {got}");
    counted(&world.running, "absent_host", 1).await;
}

#[tokio::test]
async fn a_failure_follows_its_policy_and_is_no_absence() {
    let world = World::new(&["a.example"]);
    world.hook.answers(|_| failed(Choice::Refuse(80)));
    let got = alert(&world.running, "a.example", world.config()).await;
    assert!(got.contains("InternalError"), "{got}");
    counted(&world.running, "hook_failed", 1).await;
    world.hook.answers(|_| failed(Choice::Lookup));
    let got = world.visit("a.example", false).await.get("a.example").await;
    assert_eq!(got, (308, "a.example".into()));
}

#[tokio::test]
async fn a_host_that_is_used_answers_as_if_it_was_asked_for() {
    let world = World::with(&["a.example", "b.example"], Setup::default(), |found| {
        found.record.disabled = found.record.pattern.as_str() == "b.example";
    });
    for (used, text, result) in [
        ("b.example", "UnrecognisedName", "disabled"),
        ("absent.example", "UnrecognisedName", "absent_host"),
    ] {
        world.hook.chooses(move |_| Choice::Use(name(used)));
        let got = alert(&world.running, "a.example", world.config()).await;
        assert!(got.contains(text), "{got}");
        counted(&world.running, result, 1).await;
    }
    world.running.store.fail(true);
    world.hook.chooses(|_| Choice::Use(name("c.example")));
    let got = alert(&world.running, "a.example", world.config()).await;
    assert!(got.contains("InternalError"), "{got}");
    counted(&world.running, "failed", 1).await;
}

#[tokio::test]
async fn validators_and_impossible_names_do_not_reach_the_hook() {
    let world = World::new(&["a.example"]);
    let mut config = world.config();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let got = alert(&world.running, "a.example", config).await;
    assert!(got.contains("NoApplicationProtocol"), "{got}");
    let got = alert(
        &world.running,
        "xn--zzzzzzzzzz99999999.example",
        world.config(),
    )
    .await;
    assert!(got.contains("UnrecognisedName"), "{got}");
    assert_eq!(world.hook.calls(), 0);
}
