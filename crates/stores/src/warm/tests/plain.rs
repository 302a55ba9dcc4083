//! Copies of a store that others write.

use std::fs;
use std::sync::Mutex;

use super::*;
use sekisho_certs::contract::fixture::{plain, record};
use sekisho_certs::credential::KeyType;
use sekisho_certs::seal::{KeyRing, MasterKey, OpenKey};
use sekisho_certs::store::{BoxFuture, Found, Result, Source};

/// Says what it is told to.
#[derive(Debug)]
struct Said(Mutex<Result<Answer<OpenKey>>>);

impl Store for Said {
    fn find<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        let answer = self.0.lock().unwrap().clone();
        Box::pin(async move { answer })
    }
}

impl Said {
    fn say(&self, answer: Result<Answer<OpenKey>>) {
        *self.0.lock().unwrap() = answer;
    }
}

const SECRET: &[u8] = b"a private key in the clear";

fn found(rig: &Rig, pattern: &str, version: u64) -> Answer<OpenKey> {
    let key = OpenKey::unproved(plain(SECRET));
    let mut credential = rig.there.credential().with_key(key);
    credential.version = version;
    let mut record = record(pattern, &[(KeyType::Ecdsa, credential.id)]);
    record.version = version;
    Answer::found(Found {
        record,
        credentials: vec![credential],
        shadowed: true,
        fresh_for: Some(Duration::from_secs(9)),
        source: Source::Store,
    })
}

fn over(rig: &Rig, said: &Arc<Said>, key: u8) -> (WarmPlain, Copies) {
    let copies = rig.copies();
    let ring = KeyRing::new(MasterKey::new(&[key; 32]));
    let warm = WarmPlain::new(Arc::clone(said) as Arc<dyn Store>, copies.clone(), ring);
    (warm, copies)
}

fn fails() -> Result<Answer<OpenKey>> {
    Err(away().unwrap())
}

#[tokio::test]
async fn keys_are_sealed_on_disk_and_plain_again() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let (warm, copies) = over(&rig, &said, 1);
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    drop((warm, copies));
    for entry in fs::read_dir(rig.folder.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET));
    }
    said.say(fails());
    let (warm, copies) = over(&rig, &said, 1);
    let name = HostName::parse("a.example").unwrap();
    let Answer {
        found: Some(found), ..
    } = warm.find(&name).await.unwrap()
    else {
        panic!("it is there")
    };
    // It is proved in full, as when the store gave it.
    let key = &found.credentials[0].key;
    assert!(!key.is_proved());
    assert_eq!(key.secret().expose(), SECRET);
    assert_eq!(found.fresh_for, None);
    assert_eq!(who(&warm, "b.example").await, AWAY);
    drop((warm, copies));
    // Under another key it is of no use, and goes.
    let (warm, copies) = over(&rig, &said, 2);
    assert_eq!(who(&warm, "a.example").await, AWAY);
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((warm, copies));
    let (warm, _) = over(&rig, &said, 1);
    assert_eq!(who(&warm, "a.example").await, AWAY);
}

#[tokio::test]
async fn the_next_answer_replaces_or_drops_a_copy() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let (warm, copies) = over(&rig, &said, 1);
    let version = async || {
        until(|| copies.is_idle(), || format!("{copies:?}")).await;
        said.say(fails());
        ask(&warm, "a.example")
            .await
            .map(|found| found.map(|found| found.version))
    };
    let newer = found(&rig, "a.example", 2);
    for (number, answer) in [(1, found(&rig, "a.example", 1)), (2, newer.clone())] {
        said.say(Ok(answer));
        ask(&warm, "a.example").await.unwrap();
        assert_eq!(version().await.unwrap(), Some(number));
    }
    said.say(Ok(Answer::absent()));
    assert_eq!(who(&warm, "a.example").await, "");
    assert!(version().await.is_err());
    // The same version is kept again.
    said.say(Ok(newer));
    ask(&warm, "a.example").await.unwrap();
    assert_eq!(version().await.unwrap(), Some(2));
}

#[tokio::test]
async fn names_below_a_wildcard_are_noted_one_by_one() {
    let rig = Rig::new();
    let wildcard = found(&rig, "*.b.example", 1);
    let said = Arc::new(Said(Mutex::new(Ok(wildcard.clone()))));
    let (warm, copies) = over(&rig, &said, 1);
    for name in ["one.b.example", "two.b.example"] {
        assert_eq!(who(&warm, name).await, "*.b.example");
    }
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    said.say(fails());
    for name in ["one.b.example", "two.b.example"] {
        assert_eq!(who(&warm, name).await, "*.b.example");
    }
    assert_eq!(who(&warm, "three.b.example").await, AWAY);
    // Absent is the name, and the wildcard above it.
    said.say(Ok(Answer::absent()));
    assert_eq!(who(&warm, "one.b.example").await, "");
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    said.say(fails());
    assert_eq!(who(&warm, "two.b.example").await, AWAY);
}
