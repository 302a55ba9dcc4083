//! The sentences on documents.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join_all;

use super::fixture::{Fixture, sealed};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Change, DocumentId, DocumentKind, Precondition, StoreError, Subject, What, Write,
};

pub async fn a_document_comes_back(fixture: Fixture) {
    let mut document = fixture.document("ticket", "1", b"content");
    document.expires = Some(fixture.now() + 10);
    let put = Write::PutDocument(document.clone(), Precondition::Absent);
    let number = fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    let read = fixture
        .catalog
        .document(&DocumentId::new("ticket", "1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.id, DocumentId::new("ticket", "1"));
    assert_eq!(read.bytes, document.bytes);
    assert_eq!((read.expires, read.version), (document.expires, number));
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("ticket", "2"))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("other", "1"))
            .await
            .unwrap()
            .is_none()
    );
}

pub async fn an_expired_document_is_not_there(fixture: Fixture) {
    let mut document = fixture.document("ticket", "1", b"old");
    document.expires = Some(fixture.now() + 10);
    let put = Write::PutDocument(document.clone(), Precondition::Absent);
    fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    fixture.advance(9);
    let version = fixture
        .catalog
        .document(&DocumentId::new("ticket", "1"))
        .await
        .unwrap()
        .unwrap()
        .version;
    fixture.advance(1);
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("ticket", "1"))
            .await
            .unwrap()
            .is_none()
    );
    let listed = fixture
        .catalog
        .list_documents(&"ticket".into(), None, 9)
        .await
        .unwrap();
    assert!(listed.is_empty());
    let late = Write::PutDocument(document.clone(), Precondition::Version(version));
    let error = fixture
        .catalog
        .write(Batch::unchecked(vec![late]))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    document.expires = None;
    let put = Write::PutDocument(document, Precondition::Absent);
    fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    fixture.advance(1_000_000_000);
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("ticket", "1"))
            .await
            .unwrap()
            .is_some()
    );
}

pub async fn documents_are_listed_by_kind(fixture: Fixture) {
    let mut writes = Vec::new();
    for key in ["b", "", "a", "é", "c"] {
        writes.push(Write::PutDocument(
            fixture.document("one", key, b"x"),
            Precondition::Absent,
        ));
    }
    writes.push(Write::PutDocument(
        fixture.document("two", "z", b"x"),
        Precondition::Absent,
    ));
    fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap();
    let mut keys: Vec<Cow<'static, str>> = Vec::new();
    while let after = keys.last().map(|last| &**last)
        && let page = fixture
            .catalog
            .list_documents(&"one".into(), after, 2)
            .await
            .unwrap()
        && !page.is_empty()
    {
        assert!(page.len() <= 2 && page.iter().all(|one| one.id.kind.as_str() == "one"));
        keys.extend(page.into_iter().map(|one| one.id.key));
    }
    assert_eq!(keys, ["", "a", "b", "c", "é"]);
}

pub async fn kinds_are_found_in_order(fixture: Fixture) {
    let kind = async |after| fixture.catalog.next_document_kind(after).await.unwrap();
    let documents = [("zebra", "a"), ("zebra", "b"), ("zed", ""), ("Zoo", "a")];
    let puts = documents.map(|(kind, key)| {
        Write::PutDocument(fixture.document(kind, key, b"x"), Precondition::Absent)
    });
    fixture
        .catalog
        .write(Batch::unchecked(puts.to_vec()))
        .await
        .unwrap();
    let known = |word: &'static str| Some(DocumentKind::new(word));
    assert_eq!(kind("").await, known("Zoo"));
    assert_eq!(kind("Zoo").await, known("zebra"));
    assert_eq!(kind("zeal").await, known("zebra"));
    assert_eq!(kind("zebra").await, known("zed"));
    assert_eq!(kind("zed").await, None);
}

pub async fn documents_are_announced(fixture: Fixture) {
    let before = fixture.number().await;
    let put = Write::PutDocument(fixture.document("kind", "key", b"x"), Precondition::Any);
    fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    let remove = Write::RemoveDocument(
        DocumentId::new("kind", "key"),
        Precondition::Version(before + 1),
    );
    fixture
        .catalog
        .write(Batch::unchecked(vec![remove]))
        .await
        .unwrap();
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("kind", "key"))
            .await
            .unwrap()
            .is_none()
    );
    let changes = fixture.catalog.changes(before, 9).await.unwrap().changes;
    let expected = [What::Put, What::Removed].into_iter().zip(before + 1..);
    let expected = expected.map(|(what, number)| Change {
        number,
        subject: Subject::Document(DocumentId::new("kind", "key")),
        what,
    });
    assert_eq!(changes, expected.collect::<Vec<_>>());
}

/// Two writers that read the same version: the second one conflicts.
pub async fn a_version_grows_unannounced(fixture: Fixture) {
    let id = DocumentId::known(DocumentKind::ACME_QUOTA, "key");
    let put = async |content: &[u8], expect| {
        let document = fixture.document("acme-quota", "key", content);
        let put = Write::PutDocument(document, expect);
        fixture.catalog.write(Batch::unchecked(vec![put])).await
    };
    let version = async || {
        let read = fixture.catalog.document(&id).await.unwrap();
        read.unwrap().version
    };
    let number = fixture.number().await;
    assert_eq!(put(b"1", Precondition::Absent).await.unwrap(), number);
    let first = version().await;
    put(b"2", Precondition::Version(first)).await.unwrap();
    let second = version().await;
    assert!(second > first);
    let late = put(b"3", Precondition::Version(first)).await.unwrap_err();
    assert!(matches!(late, StoreError::Conflict(_)), "{late}");
    for _ in 0..3 {
        let before = version().await;
        put(b"4", Precondition::Any).await.unwrap();
        assert!(version().await > before);
    }
    let before = version().await;
    let twice = Write::PutDocument(
        fixture.document("acme-quota", "key", b"5"),
        Precondition::Any,
    );
    let batch = Batch::unchecked(vec![twice.clone(), twice]);
    assert_eq!(fixture.catalog.write(batch).await.unwrap(), number);
    assert!(version().await > before);
    // Changes of the log overtake it.
    for _ in 0..9 {
        fixture.put("a.example").await;
    }
    put(b"6", Precondition::Any).await.unwrap();
    assert!(version().await >= fixture.number().await);
}

/// Writers that found the same document absent: one of them makes it.
pub async fn one_of_many_makes_an_absent_document(fixture: Fixture) {
    let writers = (0..WRITERS).map(|number| {
        let catalog = Arc::clone(&fixture.catalog);
        let document = fixture.document("acme-quota", "key", &[number]);
        let put = Write::PutDocument(document, Precondition::Absent);
        tokio::spawn(async move { catalog.write(Batch::unchecked(vec![put])).await })
    });
    let mut won = Vec::new();
    for (writer, number) in join_all(writers).await.into_iter().zip(0..) {
        match writer.unwrap() {
            Ok(_) => won.push(number),
            Err(error) => assert!(matches!(error, StoreError::Conflict(_)), "{error}"),
        }
    }
    let id = DocumentId::known(DocumentKind::ACME_QUOTA, "key");
    let read = fixture.catalog.document(&id).await.unwrap().unwrap();
    let made = won.iter().map(|number: &u8| sealed(&[*number]));
    assert_eq!(made.collect::<Vec<_>>(), [read.bytes]);
}

const WRITERS: u8 = 50;
