//! The sentences on sealing again, and on what a batch requires.

use super::fixture::Fixture;
use sekisho_certs::credential::{CredentialId, SealedBytes};
use sekisho_certs::origin::Origin;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Document, DocumentId, Precondition, Reseal, SecretOf, StoreError, Write,
};

pub async fn sealing_again_is_no_change(fixture: Fixture) {
    let id = stored(&fixture).await;
    let before = read(&fixture, id).await;
    let position = fixture.catalog.head().await.unwrap();
    let (key, bytes) = (again(before.0, &before.1), again(before.2, &before.3));
    let reseals = vec![credential(id, key), document(bytes)];
    let outcome = fixture.catalog.write(resealing(reseals)).await;
    assert_eq!(outcome.unwrap(), position.number);
    assert_eq!(fixture.catalog.head().await.unwrap(), position);
    let after = read(&fixture, id).await;
    assert_eq!((after.0, after.2), (before.0, before.2));
    for (is, was) in [(&after.1, &before.1), (&after.3, &before.3)] {
        assert_eq!(*is, other(was));
    }
    // The rest is as it was, and found as before.
    let found = fixture.find("a.example").await.unwrap().credentials;
    assert!(found[0].id == id && found[0].chain.len() == 2 && found[0].key == after.1);
    let listed = fixture
        .catalog
        .list_documents(&"kind".into(), None, 9)
        .await;
    let Document {
        expires, version, ..
    } = listed.unwrap().remove(0);
    assert_eq!((expires, version), (Some(fixture.now() + 10), before.2));
}

pub async fn sealing_again_keeps_the_origin(fixture: Fixture) {
    fixture.put("first.example").await;
    let mut made = fixture.credential();
    let id = made.id;
    made.origin = Some(Origin::new("/srv"));
    let put = Write::PutCredential(made, Precondition::Absent);
    let batch = Batch::unchecked(vec![put]);
    fixture.catalog.write(batch).await.unwrap();
    let stored = async || fixture.catalog.credentials(&[id]).await.unwrap().remove(0);
    let before = stored().await;
    let key = again(before.version, &before.key);
    let written = fixture.catalog.write(resealing(vec![credential(id, key)]));
    written.await.unwrap();
    let after = stored().await;
    assert_eq!(after.key, other(&before.key));
    assert!(after.origin.is_some() && after.origin == before.origin);
}

pub async fn what_was_changed_meanwhile_is_left_alone(fixture: Fixture) {
    let id = stored(&fixture).await;
    let before = read(&fixture, id).await;
    let (key, bytes) = (again(before.0, &before.1), again(before.2, &before.3));
    let late = |one: &(u64, SealedBytes, SealedBytes)| (one.0 + 1, one.1.clone(), one.2.clone());
    let strange = |one: &(u64, SealedBytes, SealedBytes)| (one.0, one.2.clone(), one.1.clone());
    let absent = CredentialId::from_u64(id.as_u64() + 1_000_000);
    let writes = vec![
        credential(id, late(&key)),
        credential(id, strange(&key)),
        credential(absent, key.clone()),
        document(late(&bytes)),
        document(strange(&bytes)),
    ];
    let position = fixture.number().await;
    assert_eq!(
        fixture.catalog.write(resealing(writes)).await.unwrap(),
        position
    );
    let after = read(&fixture, id).await;
    assert_eq!((after.0, after.2), (before.0, before.2));
    assert_eq!((after.1, after.3), (before.1, before.3));
}

pub async fn a_required_document_must_stand_there(fixture: Fixture) {
    stored(&fixture).await;
    let version = fixture
        .catalog
        .document(&DocumentId::new("kind", "key"))
        .await
        .unwrap();
    let version = version.unwrap().version;
    let require = |key, expect| Write::Require(DocumentId::new("kind", key), expect);
    let put = || Write::PutDocument(fixture.document("kind", "other", b"x"), Precondition::Any);
    for refused in [
        require("key", Precondition::Absent),
        require("key", Precondition::Version(version + 1)),
        require("none", Precondition::Version(version)),
    ] {
        let before = fixture.number().await;
        let error = fixture
            .catalog
            .write(Batch::unchecked(vec![put(), refused]))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
        assert_eq!(fixture.number().await, before);
    }
    let before = fixture.number().await;
    let held = [
        require("key", Precondition::Version(version)),
        require("none", Precondition::Absent),
        put(),
    ];
    let number = fixture
        .catalog
        .write(Batch::unchecked(held.to_vec()))
        .await
        .unwrap();
    assert_eq!(number, before + 1, "only what is written takes a number");
}

/// A host with a credential, and a document.
async fn stored(fixture: &Fixture) -> CredentialId {
    let id = fixture.put("a.example").await;
    let mut document = fixture.document("kind", "key", b"content");
    document.expires = Some(fixture.now() + 10);
    let put = Write::PutDocument(document, Precondition::Absent);
    fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    id
}

/// Version and secret of both.
async fn read(fixture: &Fixture, id: CredentialId) -> (u64, SealedBytes, u64, SealedBytes) {
    let credential = fixture.catalog.credentials(&[id]).await.unwrap().remove(0);
    let document = fixture
        .catalog
        .document(&DocumentId::new("kind", "key"))
        .await
        .unwrap()
        .unwrap();
    (
        credential.version,
        credential.key,
        document.version,
        document.bytes,
    )
}

/// Version, old and new sealing.
fn again(version: u64, sealed: &SealedBytes) -> (u64, SealedBytes, SealedBytes) {
    (version, sealed.clone(), other(sealed))
}

/// Another sealing: key, nonce and bytes differ.
fn other(sealed: &SealedBytes) -> SealedBytes {
    SealedBytes {
        key_id: u32::MAX - sealed.key_id,
        nonce: sealed.nonce.map(|byte| !byte),
        bytes: sealed.bytes.iter().map(|byte| !byte).collect(),
    }
}

fn resealing(reseals: Vec<Reseal>) -> Batch {
    Batch::unchecked(Vec::new()).with_reseals(reseals)
}

fn credential(id: CredentialId, parts: (u64, SealedBytes, SealedBytes)) -> Reseal {
    reseal(SecretOf::Credential(id), parts)
}

fn document(parts: (u64, SealedBytes, SealedBytes)) -> Reseal {
    reseal(SecretOf::Document(DocumentId::new("kind", "key")), parts)
}

fn reseal(of: SecretOf, (version, from, to): (u64, SealedBytes, SealedBytes)) -> Reseal {
    Reseal {
        of,
        version,
        from,
        to,
    }
}
