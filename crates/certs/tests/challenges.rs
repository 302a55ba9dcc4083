//! Challenges on two servers that share a catalog.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Catalog, ChallengeKind, ChallengeSource, Challenges, Clock, KeyAuthorization, Sealer, Secret,
};
use sekisho_testkit::Memory;

const HTTP: ChallengeKind = ChallengeKind::Http01;
const DNS: ChallengeKind = ChallengeKind::Dns01;

/// Answers of a server that are in memory at most.
const MAX_KNOWN: usize = 4096;
/// Time at the begin of each test, in seconds.
const START: i64 = 1_800_000_000;

/// Two servers on one catalog, its sealer, and their time in milliseconds.
async fn servers() -> (Challenges, Challenges, Sealer, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(START * 1000));
    let clock = Clock::Manual(Arc::clone(&now));
    let catalog: Arc<dyn Catalog> = Arc::new(Memory::new(clock.clone()));
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    let sealer = Sealer::create(catalog, ring).await.unwrap();
    let server = || Challenges::new(sealer.clone(), clock.clone());
    (server(), server(), sealer.clone(), now)
}

async fn put(server: &Challenges, sealer: &Sealer, key: &str, text: &str) {
    let (answer, expires) = (KeyAuthorization::new(text), START + 60);
    let put = Challenges::write(HTTP, key, &answer, expires, Precondition::Any);
    sealer.write(vec![put]).await.unwrap();
    server.keep(HTTP, key, answer, expires);
}

async fn asked(server: &Challenges, key: &str) -> Option<String> {
    let answer = server.answer(HTTP, key).await.unwrap();
    answer.map(|answer| answer.as_str().to_owned())
}

#[tokio::test]
async fn every_server_answers_and_reads_once() {
    let (one, other, sealer, now) = servers().await;
    let head = sealer.catalog().head().await.unwrap();
    assert_eq!(asked(&other, "token").await, None);
    put(&one, &sealer, "token", "token.thumb").await;
    assert!(one.own(HTTP, "token").is_some() && other.own(HTTP, "token").is_none());
    // The absence was not remembered.
    assert_eq!(asked(&other, "token").await.unwrap(), "token.thumb");
    assert_eq!(
        other
            .answer(ChallengeKind::TlsAlpn01, "token")
            .await
            .unwrap(),
        None
    );
    let remove = one.remove(HTTP, "token");
    sealer.write(vec![remove]).await.unwrap();
    assert_eq!(asked(&one, "token").await, None);
    assert_eq!(asked(&other, "token").await.unwrap(), "token.thumb");
    now.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!(asked(&other, "token").await, None);
    assert_eq!(sealer.catalog().head().await.unwrap(), head);
    let mut registry = Registry::default();
    other.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in ["{outcome=\"found\"} 1\n", "{outcome=\"absent\"} 3\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test]
async fn the_next_order_for_a_name_is_answered_by_all_servers() {
    let (one, other, sealer, _) = servers().await;
    let kind = ChallengeKind::TlsAlpn01;
    for text in ["first", "second"] {
        let answer = KeyAuthorization::new(text);
        let expires = START + 3600;
        let put = Challenges::write(kind, "a.example", &answer, expires, Precondition::Any);
        sealer.write(vec![put]).await.unwrap();
        one.keep(kind, "a.example", answer, expires);
        let answer = other.answer(kind, "a.example").await.unwrap().unwrap();
        // The next one comes within the same second.
        assert_eq!(answer.as_str(), text);
    }
    one.forget(kind, "a.example");
    assert!(one.own(kind, "a.example").is_none());
    assert!(one.answer(kind, "a.example").await.unwrap().is_some());
}

#[test]
fn no_challenge_is_announced() {
    for kind in ChallengeKind::ALL {
        match kind {
            // A new kind stands in `ALL`, too.
            ChallengeKind::TlsAlpn01 | ChallengeKind::Http01 | ChallengeKind::Dns01 => {}
        }
        assert!(!kind.document().is_announced(), "{kind:?}");
    }
}

#[tokio::test]
async fn memory_is_bounded_and_odd_keys_are_absent() {
    let (one, ..) = servers().await;
    let numbers = 0..MAX_KNOWN + 9;
    for number in numbers.clone() {
        let answer = KeyAuthorization::new("x");
        let expires = START + 60 + i64::try_from(number).unwrap();
        one.keep(HTTP, &number.to_string(), answer, expires);
    }
    // The answers that expire first made room.
    let known = numbers.filter(|number| one.own(HTTP, &number.to_string()).is_some());
    assert!(known.eq(9..MAX_KNOWN + 9));
    for odd in ["a\0b", "a b", "ü", &"a".repeat(254)] {
        assert_eq!(asked(&one, odd).await, None);
    }
    assert_eq!(
        format!("{:?}", one.own(HTTP, "9")),
        "Some(KeyAuthorization(…))"
    );
}

fn text(key: &str, expires: i64) -> Write<Secret> {
    let answer = KeyAuthorization::new("x");
    Challenges::write(DNS, key, &answer, expires, Precondition::Any)
}

/// Returns names and texts as keys.
async fn listed(sealer: &Sealer) -> Vec<String> {
    let texts = sealer.texts().await.unwrap();
    let key = |(name, texts): (String, Vec<String>)| {
        texts.into_iter().map(move |text| format!("{name} {text}"))
    };
    let mut keys: Vec<_> = texts.into_iter().flat_map(key).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn texts_of_served_zones_are_listed_until_they_end() {
    let (server, _, sealer, now) = servers().await;
    let head = sealer.catalog().head().await.unwrap();
    let keys = ["a.example. one", "a.example. two", "b.example. three"];
    let (soon, later) = (START + 60, START + 120);
    let mut writes: Vec<_> = keys[..2].iter().map(|key| text(key, soon)).collect();
    writes.push(text(keys[2], later));
    // A later version may name its documents otherwise.
    writes.push(text("unknown", later));
    sealer.write(writes).await.unwrap();
    assert_eq!(listed(&sealer).await, keys);
    for _ in 0..2 {
        sealer
            .write(vec![server.remove(DNS, keys[0])])
            .await
            .unwrap();
        assert_eq!(listed(&sealer).await, keys[1..]);
    }
    now.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!(listed(&sealer).await, keys[2..]);
    assert_eq!(sealer.catalog().head().await.unwrap(), head);
}

#[tokio::test]
async fn texts_are_listed_page_by_page_up_to_a_bound() {
    let (_, _, sealer, _) = servers().await;
    let write = |number: usize| text(&format!("a.example. {number}"), START + 60);
    // The texts fill one page, and more than ten.
    for (numbers, listed_at_most) in [(0..10_000, 10_000), (10_000..100_001, 100_000)] {
        let writes = numbers.map(write).collect();
        sealer.write(writes).await.unwrap();
        assert_eq!(listed(&sealer).await.len(), listed_at_most);
    }
}

/// Texts must not take the room of tokens: nobody asks for texts by their keys.
#[tokio::test]
async fn a_server_remembers_no_texts() {
    let (server, _, sealer, _) = servers().await;
    put(&server, &sealer, "token", "token.thumb").await;
    for number in 0..=MAX_KNOWN {
        let answer = KeyAuthorization::new("text");
        server.keep(DNS, &format!("a.example. {number}"), answer, START + 90);
    }
    assert!(server.own(DNS, "a.example. 0").is_none());
    assert!(server.own(HTTP, "token").is_some());
}
