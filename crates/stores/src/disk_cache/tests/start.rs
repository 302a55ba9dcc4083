//! A start without the store.

use super::*;
use sekisho_certs::store::DocumentId;

fn document(kind: &'static str, bytes: &[u8], expires: Option<i64>) -> Write<Secret> {
    let document = Document {
        expires,
        ..Document::new(DocumentId::new(kind, "k"), plain(bytes))
    };
    Write::PutDocument(document, Precondition::Any)
}

#[tokio::test]
async fn a_catalog_opens_without_its_store() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let writes = vec![
        document("kept", b"keys", None),
        document("other", b"other", None),
    ];
    rig.write(writes).await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    drop(server);

    rig.switch.say(away());
    let server = rig.server().await;
    assert_eq!(server.who("a.example").await, "a.example");
    let start = server.disk.start_state().unwrap();
    assert_eq!(start.catalog, rig.there.catalog.id().await.unwrap());
    assert_eq!(start.position, rig.there.catalog.head().await.unwrap());
    let [kept] = start.documents.as_slice() else {
        panic!("{:?}", start.documents)
    };
    let kept = server.sealer.open_document(kept.clone()).await.unwrap();
    assert_eq!(
        (kept.id.kind.as_str(), kept.bytes.expose()),
        ("kept", &b"keys"[..])
    );
    // Nothing is written from it.
    let error = server
        .sealer
        .write(vec![document("kept", b"more", None)])
        .await;
    assert_eq!(error.unwrap_err().to_string(), AWAY);
    drop(server);
    let error = rig
        .server_with(KeyRing::new(master(6)))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("wrong master key"), "{error}");
}

#[tokio::test]
async fn an_expired_document_is_not_there() {
    let rig = Rig::new();
    let expires = Some(rig.there.now() + 60);
    rig.write(vec![document("kept", b"keys", expires)]).await;
    drop(rig.following().await);
    rig.switch.say(away());
    let start = rig.server().await.disk.start_state().unwrap();
    assert_eq!(start.documents.len(), 1);
    rig.there.advance(60);
    let start = rig.server().await.disk.start_state().unwrap();
    assert!(start.documents.is_empty());
}

#[tokio::test]
async fn a_replaced_document_is_replaced() {
    let rig = Rig::new();
    rig.write(vec![document("kept", b"old", None)]).await;
    let server = rig.following().await;
    rig.write(vec![document("kept", b"new", None)]).await;
    server.follow().await;
    drop(server);
    rig.switch.say(away());
    let server = rig.server().await;
    let start = server.disk.start_state().unwrap();
    let kept = server
        .sealer
        .open_document(start.documents[0].clone())
        .await;
    assert_eq!(kept.unwrap().bytes.expose(), b"new");
}

/// The first contact continues where the copies stand, and tells which
/// credentials were replaced meanwhile.
#[tokio::test]
async fn the_first_contact_is_a_continuation() {
    let rig = Rig::new();
    rig.put("a.example").await;
    drop(rig.following().await);
    rig.switch.say(away());
    let server = rig.server().await;
    let before = server.sealer.seen().note();
    rig.put("b.example").await;
    rig.switch.say(None);
    server.follow().await;
    let after = server.sealer.seen().note();
    assert_eq!(after.epoch, before.epoch, "it did not start over");
    assert!(after.position.unwrap().number > before.position.unwrap().number);
}
