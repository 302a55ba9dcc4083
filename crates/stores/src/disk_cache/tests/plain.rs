//! Copies of a store that others write.

use std::fs;
use std::sync::Mutex;

use super::*;
use sekisho_certs::credential::KeyType;
use sekisho_certs::store::BoxFuture;
use sekisho_testkit::contract::fixture::record;

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
    })
}

struct Plain {
    tiers: Tiers,
    disk: Arc<DiskCache>,
}

impl Plain {
    async fn over(rig: &Rig, said: &Arc<Said>, key: u8) -> Self {
        let disk = rig.disk(&Arc::default()).await;
        let (store, ring) = (Arc::clone(said), KeyRing::new(master(key)));
        Self {
            tiers: Tiers::plain_with_disk(store, disk.clone(), ring),
            disk,
        }
    }

    async fn who(&self, name: &str) -> String {
        who(&self.tiers, name).await
    }

    async fn find(&self, name: &str) -> Result<Option<Box<Found<OpenKey>>>> {
        find(&self.tiers, name).await
    }

    async fn settled(&self) {
        self.disk.settled().await;
    }
}

fn fails() -> Result<Answer<OpenKey>> {
    Err(away().unwrap())
}

#[tokio::test]
async fn keys_are_sealed_on_disk_and_plain_again() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let server = Plain::over(&rig, &said, 1).await;
    assert_eq!(server.who("a.example").await, "a.example");
    kept(&server.disk, 1).await;
    // Before the writer removes the log of the file.
    for entry in fs::read_dir(rig.folder.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET));
    }
    drop(server);
    said.say(fails());
    let server = Plain::over(&rig, &said, 1).await;
    let found = server.find("a.example").await.unwrap().unwrap();
    // The key is proved in full, as when the store gave it.
    let key = &found.credentials[0].key;
    assert!(!key.is_proved());
    assert_eq!(key.secret().expose(), SECRET);
    assert_eq!(found.fresh_for, None);
    assert_eq!(server.who("b.example").await, AWAY);
    drop(server);
    // Under another key it is of no use, and goes.
    let server = Plain::over(&rig, &said, 2).await;
    assert_eq!(server.who("a.example").await, AWAY);
    server.settled().await;
    drop(server);
    let server = Plain::over(&rig, &said, 1).await;
    assert_eq!(server.who("a.example").await, AWAY);
}

#[tokio::test]
async fn the_next_answer_replaces_or_drops_a_copy() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let server = Plain::over(&rig, &said, 1).await;
    let version = async || {
        server.settled().await;
        said.say(fails());
        server
            .find("a.example")
            .await
            .map(|found| found.map(|found| found.record.version))
    };
    let newer = found(&rig, "a.example", 2);
    for (number, answer) in [(1, found(&rig, "a.example", 1)), (2, newer.clone())] {
        said.say(Ok(answer));
        server.find("a.example").await.unwrap();
        assert_eq!(version().await.unwrap(), Some(number));
    }
    said.say(Ok(Answer::absent()));
    assert_eq!(server.who("a.example").await, "");
    assert!(version().await.is_err());
    // That version is kept again.
    said.say(Ok(newer));
    server.find("a.example").await.unwrap();
    assert_eq!(version().await.unwrap(), Some(2));
}

#[tokio::test]
async fn names_below_a_wildcard_are_noted_one_by_one() {
    let rig = Rig::new();
    let wildcard = found(&rig, "*.b.example", 1);
    let said = Arc::new(Said(Mutex::new(Ok(wildcard.clone()))));
    let server = Plain::over(&rig, &said, 1).await;
    for name in ["one.b.example", "two.b.example"] {
        assert_eq!(server.who(name).await, "*.b.example");
    }
    server.settled().await;
    said.say(fails());
    for name in ["one.b.example", "two.b.example"] {
        assert_eq!(server.who(name).await, "*.b.example");
    }
    assert_eq!(server.who("three.b.example").await, AWAY);
    // Absent is the name, and the wildcard above it.
    said.say(Ok(Answer::absent()));
    assert_eq!(server.who("one.b.example").await, "");
    server.settled().await;
    said.say(fails());
    assert_eq!(server.who("two.b.example").await, AWAY);
}

/// Found by review: a full queue kept the copy before the answer that found no room.
#[tokio::test]
async fn an_answer_without_room_drops_the_copy_before_it() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let server = Plain::over(&rig, &said, 1).await;
    assert_eq!(server.who("a.example").await, "a.example");
    kept(&server.disk, 1).await;
    // The disk hangs, and the queue is full.
    let (hang, hung) = std::sync::mpsc::channel::<()>();
    server.disk.hang(hung).await;
    let Answer { found: large, .. } = found(&rig, "large.example", 1);
    let mut large = large.unwrap();
    large.record.site = Some(sekisho_certs::Site {
        format: 1,
        json: "x".repeat(5 << 20).into(),
    });
    said.say(Ok(Answer::found(Found {
        record: HostRecord {
            pattern: sekisho_certs::HostPattern::parse("a.example").unwrap(),
            version: 2,
            ..large.record
        },
        ..*large
    })));
    assert_eq!(server.who("a.example").await, "a.example");
    drop(hang);
    server.settled().await;
    said.say(fails());
    assert_eq!(server.who("a.example").await, AWAY);
}

/// The store no longer vouches for a copy, and tells so once.
#[tokio::test]
async fn an_absence_while_the_cache_is_suspended_drops_the_copy() {
    let rig = Rig::new();
    let said = Arc::new(Said(Mutex::new(Ok(found(&rig, "a.example", 1)))));
    let server = Plain::over(&rig, &said, 1).await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.settled().await;
    server.disk.suspend().await.unwrap();
    said.say(Ok(Answer::absent()));
    assert_eq!(server.who("a.example").await, "");
    server.disk.resume().await.unwrap();
    kept(&server.disk, 0).await;
    said.say(fails());
    assert_eq!(server.who("a.example").await, AWAY);
}
