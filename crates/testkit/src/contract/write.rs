//! The sentences on writes.

use super::fixture::{Fixture, all_hosts, certificate, client_ca, pattern, put_host, record};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::origin::Origin;
use sekisho_certs::record::{HostRecord, Site, Tenant, TlsPolicy, TlsVersion};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{DocumentId, Precondition, StoreError, Write};

pub async fn a_write_is_whole_or_not_at_all(fixture: Fixture) {
    let kept = fixture.put("kept.example").await;
    let before = fixture.number().await;
    let credential = fixture.credential();
    let id = credential.id;
    let writes = vec![
        Write::PutCredential(credential, Precondition::Absent),
        put_host(record("new.example", &[(KeyType::Ecdsa, id)])),
        Write::PutDocument(fixture.document("kind", "key", b"x"), Precondition::Absent),
        Write::RemoveHost(pattern("kept.example"), Precondition::Any),
        // Its precondition does not hold.
        Write::RemoveHost(pattern("other.example"), Precondition::Version(1)),
    ];
    let error = fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    assert!(error.to_string().contains("other.example"), "{error}");
    assert_eq!(fixture.number().await, before);
    assert!(fixture.find("new.example").await.is_none());
    assert!(fixture.find("kept.example").await.is_some());
    assert!(!fixture.has(id).await && fixture.has(kept).await);
    assert!(
        fixture
            .catalog
            .document(&DocumentId::new("kind", "key"))
            .await
            .unwrap()
            .is_none()
    );
}

pub async fn what_is_expected_must_be_there(fixture: Fixture) {
    let first = fixture.credential();
    let id = first.id;
    let put = |expect| {
        let host = record("a.example", &[(KeyType::Ecdsa, id)]);
        vec![
            vec![Write::PutCredential(first.clone(), expect)],
            vec![Write::PutHost(host, expect)],
            vec![Write::PutDocument(
                fixture.document("kind", "key", b"x"),
                expect,
            )],
        ]
    };
    for writes in put(Precondition::Version(0)) {
        refused(&fixture, writes).await;
    }
    for writes in put(Precondition::Absent) {
        fixture
            .catalog
            .write(Batch::unchecked(writes))
            .await
            .unwrap();
    }
    for writes in put(Precondition::Absent) {
        refused(&fixture, writes).await;
    }
    let versions = [
        fixture.catalog.credentials(&[id]).await.unwrap()[0].version,
        fixture.host("a.example").await.unwrap().version,
        fixture
            .catalog
            .document(&DocumentId::new("kind", "key"))
            .await
            .unwrap()
            .unwrap()
            .version,
    ];
    for (at, version) in versions.into_iter().enumerate() {
        refused(
            &fixture,
            put(Precondition::Version(version + 99)).swap_remove(at),
        )
        .await;
        let writes = put(Precondition::Version(version)).swap_remove(at);
        fixture
            .catalog
            .write(Batch::unchecked(writes.clone()))
            .await
            .unwrap();
        // Written once more, now it is too late.
        refused(&fixture, writes).await;
    }
    for writes in put(Precondition::Any) {
        fixture
            .catalog
            .write(Batch::unchecked(writes))
            .await
            .unwrap();
    }
}

async fn refused(fixture: &Fixture, writes: Vec<Write<SealedBytes>>) {
    let before = fixture.number().await;
    let error = fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    assert_eq!(fixture.number().await, before);
}

pub async fn an_orphan_is_deleted_in_the_same_transaction(fixture: Fixture) {
    for key_type in KeyType::ALL {
        let credential = fixture.credential_of(key_type);
        let id = credential.id;
        let refer = |name| put_host(record(name, &[(key_type, id)]));
        let remove = |name| Write::RemoveHost(pattern(name), Precondition::Any);
        let put = Write::PutCredential(credential, Precondition::Absent);
        let write = async |writes| {
            fixture
                .catalog
                .write(Batch::unchecked(writes))
                .await
                .unwrap()
        };
        write(vec![put, refer("a.example"), refer("b.example")]).await;
        // The last of several references counts.
        write(vec![remove("a.example")]).await;
        assert!(fixture.has(id).await);
        // Moved within one write, it is never without one.
        write(vec![remove("b.example"), refer("c.example")]).await;
        assert!(fixture.has(id).await);
        // Replaced by itself.
        write(vec![refer("c.example")]).await;
        assert!(fixture.has(id).await);
        // Pointed elsewhere.
        write(vec![put_host(record("c.example", &[]))]).await;
        assert!(!fixture.has(id).await);
        write(vec![remove("c.example")]).await;
    }
}

pub async fn a_reference_must_exist(fixture: Fixture) {
    let id = fixture.credential().id;
    let writes = vec![put_host(record("a.example", &[(KeyType::Ecdsa, id)]))];
    let error = fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    assert!(error.to_string().contains(&id.to_string()), "{error}");
}

pub async fn a_credential_keeps_its_type(fixture: Fixture) {
    let id = fixture.put("a.example").await;
    let wrong = vec![put_host(record("b.example", &[(KeyType::Rsa, id)]))];
    refused(&fixture, wrong).await;
    let mut other = fixture.credential_of(KeyType::Rsa);
    other.id = id;
    refused(
        &fixture,
        vec![Write::PutCredential(other, Precondition::Any)],
    )
    .await;
}

pub async fn every_field_comes_back(fixture: Fixture) {
    let mut host = record("a.example", &[]);
    host.tenant = Tenant::parse("Müller & Söhne").unwrap();
    host.site = Some(Site {
        format: 3,
        json: "{\"root\":\"/srv\"}".into(),
    });
    host.tls = TlsPolicy {
        min: TlsVersion::Tls13,
        client_ca: Some(client_ca(1)),
        client_optional: true,
    };
    host.disabled = true;
    let mut writes = Vec::new();
    let mut stored = Vec::new();
    for key_type in KeyType::ALL {
        let mut credential = fixture.credential_of(key_type);
        if key_type == KeyType::Ed25519 {
            credential.chain = vec![certificate(credential.id.as_u64())];
        }
        host.references.set(key_type, Some(credential.id));
        stored.push(credential.clone());
        writes.push(Write::PutCredential(credential, Precondition::Absent));
    }
    writes.push(put_host(host.clone()));
    host.version = fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap();
    let found = fixture.find("a.example").await.unwrap();
    assert_eq!(found.record, host);
    assert_eq!(fixture.host("a.example").await.unwrap(), host);
    for credential in stored {
        let read = found.credentials.iter().find(|one| one.id == credential.id);
        let read = read.unwrap();
        assert_eq!(read.key_type, credential.key_type);
        assert_eq!(read.chain, credential.chain);
        assert_eq!(read.key, credential.key);
        assert_eq!(read.not_before, credential.not_before);
        assert_eq!(read.not_after, credential.not_after);
    }
}

pub async fn a_client_ca_is_replaced_and_dropped(fixture: Fixture) {
    let id = fixture.put("a.example").await;
    let (one, other) = (client_ca(1), client_ca(2));
    for (client_ca, is_optional) in [
        (Some(one), false),
        (Some(other.clone()), false),
        (Some(other), true),
        (None, false),
    ] {
        let mut host = record("a.example", &[(KeyType::Ecdsa, id)]);
        host.tls.client_ca = client_ca;
        host.tls.client_optional = is_optional;
        let writes = vec![put_host(host.clone())];
        fixture
            .catalog
            .write(Batch::unchecked(writes))
            .await
            .unwrap();
        let listed = all_hosts(&*fixture.catalog).await;
        for found in [
            fixture.find("a.example").await.unwrap().record,
            listed[0].clone(),
        ] {
            assert_eq!(found.tls.to_text(), host.tls.to_text());
        }
    }
}

pub async fn an_origin_ends_with_the_next_write(fixture: Fixture) {
    // Credentials that are made in an empty catalog have version 0, and no origin.
    fixture.put("first.example").await;
    let mut credential = fixture.credential();
    let id = credential.id;
    let mut host = record("a.example", &[(KeyType::Ecdsa, id)]);
    credential.origin = Some(Origin::new("/srv"));
    host.origin = Some(Origin::new("/srv"));
    let write = async |credential: StoredCredential<SealedBytes>, host: HostRecord| {
        let put = Write::PutCredential(credential, Precondition::Any);
        let batch = Batch::unchecked(vec![put, put_host(host)]);
        fixture.catalog.write(batch).await.unwrap();
    };
    // Set, ended by a program that writes back what it has read, and set again.
    for _ in 0..2 {
        write(credential.clone(), host.clone()).await;
        let (stored, read) = both(&fixture, id).await;
        let origin = |version| {
            Some(Origin {
                source: "/srv".into(),
                version,
            })
        };
        assert_eq!(stored.origin, origin(stored.version));
        assert_eq!(read.origin, origin(read.version));
        assert_eq!(all_hosts(&*fixture.catalog).await[0], read);
        write(stored, read).await;
        let (stored, read) = both(&fixture, id).await;
        assert_eq!((stored.origin, read.origin), (None, None));
    }
    // Without one.
    write(credential.clone(), host.clone()).await;
    (credential.origin, host.origin) = (None, None);
    write(credential, host).await;
    let (stored, read) = both(&fixture, id).await;
    assert_eq!((stored.origin, read.origin), (None, None));
}

async fn both(fixture: &Fixture, id: CredentialId) -> (StoredCredential<SealedBytes>, HostRecord) {
    let mut stored = fixture.catalog.credentials(&[id]).await.unwrap();
    (stored.remove(0), fixture.host("a.example").await.unwrap())
}

pub async fn a_page_of_suspension_comes_back(fixture: Fixture) {
    let page = |json: &str| {
        Some(Site {
            format: 7,
            json: json.into(),
        })
    };
    let mut host = record("a.example", &[]);
    host.site = page("{\"root\":\"/srv\"}");
    for suspended in [page("{\"text\": \"a b\"}"), page(""), None] {
        host.suspended = suspended;
        let batch = Batch::unchecked(vec![put_host(host.clone())]);
        host.version = fixture.catalog.write(batch).await.unwrap();
        let found = fixture.find("a.example").await.unwrap().record;
        let listed = all_hosts(&*fixture.catalog).await;
        assert_eq!((&found, &listed[..]), (&host, &[host.clone()][..]));
    }
}

pub async fn removing_what_is_absent_changes_nothing(fixture: Fixture) {
    let before = fixture.number().await;
    for expect in [Precondition::Any, Precondition::Absent] {
        let writes = vec![
            Write::RemoveHost(pattern("a.example"), expect),
            Write::RemoveDocument(DocumentId::new("kind", "key"), expect),
        ];
        assert_eq!(
            fixture
                .catalog
                .write(Batch::unchecked(writes))
                .await
                .unwrap(),
            before
        );
    }
    assert_eq!(
        fixture
            .catalog
            .write(Batch::unchecked(Vec::new()))
            .await
            .unwrap(),
        before
    );
    assert_eq!(fixture.number().await, before);
}
