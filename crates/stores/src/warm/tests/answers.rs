//! When a copy answers, and which.

use super::*;
use sekisho_certs::contract::fixture::{host_with, pattern, plain, put_host};
use sekisho_certs::seal::MasterKey;
use sekisho_certs::store::{Document, Expect, Source, Write};

#[tokio::test]
async fn a_copy_answers_only_while_the_store_fails_and_may_recover() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    drop((warm, copies));

    let (warm, copies) = rig.warm();
    for error in [
        away(),
        Some(StoreError::Overloaded),
        Some(StoreError::TimedOut(Duration::from_secs(2))),
    ] {
        rig.switch.say(error.clone());
        assert_eq!(who(&warm, "a.example").await, "a.example");
        // A failure is never an absence.
        let unknown = who(&warm, "b.example").await;
        assert_eq!(unknown, error.unwrap().to_string());
    }
    assert_eq!(copies.stats().answers, 3);
    for error in [
        StoreError::Corrupt("damaged".into()),
        StoreError::Refused("wrong".into()),
    ] {
        rig.switch.say(Some(error.clone()));
        assert_eq!(who(&warm, "a.example").await, error.to_string());
    }
    // A store that answers is believed, whatever lies on the disk.
    rig.switch.say(None);
    let remove = Write::RemoveHost(pattern("a.example"), Expect::Any);
    rig.there
        .catalog
        .write(Batch::unchecked(vec![remove]))
        .await
        .unwrap();
    assert_eq!(who(&warm, "a.example").await, "");
    assert_eq!(copies.stats().answers, 3);
}

/// Found by review: with a level that answers for a catalog that is down, the
/// log said every ten seconds that the store answers again, and a start asked
/// the dead store for each document.
#[tokio::test]
async fn what_stands_in_below_is_no_answer_of_the_store() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    rig.there.put("b.example").await;
    let (warm, copies, _) = rig.following().await;
    let source = async |name| {
        let name = HostName::parse(name).unwrap();
        let answer = warm.find(&name).await.unwrap();
        answer.found.expect("it is there").source
    };
    assert_eq!(source("a.example").await, Source::Store);
    kept(&copies, 1).await;
    rig.switch.say(away());
    assert_eq!(source("a.example").await, Source::StandIn);
    assert!(copies.is_away());
    rig.switch.say(None);
    *rig.switch.source.lock().unwrap() = Source::StandIn;
    assert_eq!(source("b.example").await, Source::StandIn);
    assert!(copies.is_away());
    *rig.switch.source.lock().unwrap() = Source::Store;
    assert_eq!(source("b.example").await, Source::Store);
    assert!(!copies.is_away());
}

#[tokio::test]
async fn everything_of_a_record_comes_back() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    let name = HostName::parse("a.example").unwrap();
    let answer = async |warm: &Warm| {
        let answer = warm.find(&name).await.unwrap();
        answer.found.expect("it is there")
    };
    let before = answer(&warm).await;
    kept(&copies, 1).await;
    rig.switch.say(away());
    let after = answer(&warm).await;
    assert_eq!(after.record, before.record);
    let (one, other) = (&before.credentials[0], &after.credentials[0]);
    assert_eq!(one.key, other.key);
    assert_eq!((one.id, one.version), (other.id, other.version));
    assert_eq!(one.chain, other.chain);
}

#[tokio::test]
async fn a_wildcard_answers_what_it_alone_may() {
    let rig = Rig::new();
    for pattern in ["*.b.example", "*.c.example", "own.c.example"] {
        rig.there.put(pattern).await;
    }
    let (warm, copies, _) = rig.following().await;
    for name in ["one.b.example", "one.c.example"] {
        assert!(who(&warm, name).await.starts_with("*."));
    }
    kept(&copies, 2).await;
    rig.switch.say(away());
    // Nothing stands below this one.
    assert_eq!(who(&warm, "two.b.example").await, "*.b.example");
    // Below the other only what it has answered.
    assert_eq!(who(&warm, "one.c.example").await, "*.c.example");
    assert_eq!(who(&warm, "own.c.example").await, AWAY);
    assert_eq!(who(&warm, "two.c.example").await, AWAY);
    assert_eq!(who(&warm, "one.two.b.example").await, AWAY);
}

#[tokio::test]
async fn a_disabled_host_stays_disabled() {
    let rig = Rig::new();
    let mut off = HostRecord::new(pattern("off.example"));
    off.disabled = true;
    rig.there
        .catalog
        .write(Batch::unchecked(vec![put_host(off)]))
        .await
        .unwrap();
    let (warm, copies, _) = rig.following().await;
    assert!(ask(&warm, "off.example").await.unwrap().unwrap().disabled);
    kept(&copies, 1).await;
    rig.switch.say(away());
    assert!(ask(&warm, "off.example").await.unwrap().unwrap().disabled);
}

#[tokio::test]
async fn a_sealed_catalog_opens_without_its_store() {
    let rig = Rig::new();
    let ring = || KeyRing::new(MasterKey::new(&[5; 32]));
    Sealer::create(Arc::clone(&rig.there.catalog), ring())
        .await
        .unwrap();
    let (sealed, copies) = rig.opened(ring()).await.unwrap();
    // The feed's first look begins anew, and keeps what a start needs.
    sealed.head().await.unwrap();
    let put = |kind: &str, bytes: &[u8]| {
        let document = Document {
            kind: kind.to_owned(),
            key: "k".to_owned(),
            bytes: plain(bytes),
            expires: None,
            version: 0,
        };
        Write::PutDocument(document, Expect::Any)
    };
    let mut writes = host_with("a.example", 1, plain);
    writes.extend([put("kept", b"keys"), put("other", b"other")]);
    sealed.sealer().write(writes).await.unwrap();
    for kind in ["kept", "other"] {
        sealed.sealer().document(kind, "k").await.unwrap();
    }
    assert_eq!(who(&sealed, "a.example").await, "a.example");
    kept(&copies, 1).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (sealed, copies) = rig.opened(ring()).await.unwrap();
    assert_eq!(who(&sealed, "a.example").await, "a.example");
    let sealer = sealed.sealer();
    let kept = sealer.document("kept", "k").await.unwrap().unwrap();
    assert_eq!(kept.bytes.expose(), b"keys");
    assert!(sealer.document("other", "k").await.is_err());
    assert!(sealer.catalog().list_credentials(None, 1).await.is_err());
    drop((sealed, copies));
    let wrong = KeyRing::new(MasterKey::new(&[6; 32]));
    let error = rig.opened(wrong).await.unwrap_err();
    assert!(error.to_string().contains("wrong master key"), "{error}");
}

#[tokio::test]
async fn an_expired_document_is_not_there() {
    let rig = Rig::new();
    let mut document = rig.there.document("kept", "k", b"keys");
    document.expires = Some(rig.there.now() + 60);
    let put = Write::PutDocument(document, Expect::Any);
    rig.there
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    let (warm, _, _) = rig.following().await;
    assert!(warm.document("kept", "k").await.unwrap().is_some());
    rig.switch.say(away());
    assert!(warm.document("kept", "k").await.unwrap().is_some());
    rig.there.advance(60);
    let error = warm.document("kept", "k").await.unwrap_err();
    assert_eq!(error.to_string(), AWAY);
}
