//! The sentences on lineages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::due::claim;
use super::fixture::{Fixture, pattern, put_host, record, sealed};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::lineage::{
    Claim, Fence, LastError, Lineage, LineageName, Listed, ToClaim, Wishes,
};
use sekisho_certs::record::Tenant;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{DocumentId, Precondition, Reseal, SecretOf, StoreError, Write};

pub(super) const TTL: Duration = Duration::from_secs(10);

pub async fn every_field_of_a_lineage_comes_back(fixture: Fixture) {
    let names = ["b.example", "*.a.example", "b.example"].map(pattern);
    let mut full = Lineage::new(Tenant::parse("Müller & Söhne").unwrap(), names).unwrap();
    assert_eq!(full.name.as_str(), "b.example");
    assert_eq!(full.names, ["*.a.example", "b.example"].map(pattern));
    full.wishes = Wishes {
        ca: Some("internal".into()),
        profile: Some("short lived".into()),
        key_type: Some(KeyType::Rsa),
        solver: Some("dns".into()),
    };
    full.credential = Some(CredentialId::from_u64(u64::MAX));
    full.due = Some(-5);
    full.turn = i64::MIN;
    full.attempts = u32::MAX;
    let text = "429: „too many“\nretry".to_owned();
    full.last_error = Some(LastError { at: -7, text });
    full.issued_by = Some("https://ca.example/dir".into());
    full.order = Some(sealed(b"order"));
    let bare = lineage("c.example");
    let number = fixture.number().await;
    write(&fixture, vec![put(full.clone()), put(bare.clone())])
        .await
        .unwrap();
    assert_eq!(read(&fixture, "b.example").await, Some(full.clone()));
    assert_eq!(read(&fixture, "c.example").await, Some(bare.clone()));
    assert_eq!(read(&fixture, "*.a.example").await, None);
    let ids = [CredentialId::from_u64(u64::MAX), CredentialId::from_u64(1)];
    assert_eq!(
        fixture.catalog.lineages_of(&ids).await.unwrap(),
        [full.clone()]
    );
    // Replaced by one that has nothing but its name.
    let bare = lineage("b.example");
    write(&fixture, vec![put(bare.clone())]).await.unwrap();
    assert_eq!(read(&fixture, "b.example").await, Some(bare));
    assert!(fixture.catalog.lineages_of(&ids).await.unwrap().is_empty());
    let remove = Write::RemoveLineage(name("b.example"), Fence::Any);
    for _ in 0..2 {
        write(&fixture, vec![remove.clone()]).await.unwrap();
        assert_eq!(read(&fixture, "b.example").await, None);
    }
    assert_eq!(fixture.number().await, number, "none of it is a change");
}

pub async fn one_holder_claims_a_lineage_at_a_time(fixture: Fixture) {
    let names: Vec<_> = (0..60)
        .map(|number| format!("h{number:02}.example"))
        .collect();
    let writes = names.iter().map(|name| due(name, Some(0), 0)).collect();
    write(&fixture, writes).await.unwrap();
    let fixture = Arc::new(fixture);
    let claims = (0..6).map(|holder| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { claim(&fixture, &holder.to_string(), 10).await })
    });
    let mut claimed = Vec::new();
    for one in claims.collect::<Vec<_>>() {
        let one = one.await.unwrap();
        assert_eq!(one.len(), 10);
        claimed.extend(one);
    }
    let distinct: BTreeSet<_> = claimed.into_iter().collect();
    assert_eq!(distinct, names.into_iter().collect());
}

pub async fn a_named_claim_is_prolonged_by_its_holder(fixture: Fixture) {
    write(&fixture, vec![put(lineage("a.example"))])
        .await
        .unwrap();
    let first = claim_named(&fixture, "a").await.unwrap();
    assert_eq!(first.until_ms, (fixture.now() + 10) * 1000);
    fixture.advance(6);
    let longer = claim_named(&fixture, "a").await.unwrap();
    assert_eq!(
        (longer.epoch, longer.until_ms),
        (first.epoch, first.until_ms + 6000)
    );
    assert_eq!(claim_named(&fixture, "b").await, None);
    fixture.advance(10);
    let other = claim_named(&fixture, "b").await.unwrap();
    assert!(other.epoch > first.epoch);
    fixture.advance(10);
    // An ended claim is not prolonged, be it one's own.
    let again = claim_named(&fixture, "b").await.unwrap();
    assert!(again.epoch > other.epoch);
    let absent = ToClaim::Named(vec![name("absent.example")]);
    assert!(
        fixture
            .catalog
            .claim(absent, "b", TTL)
            .await
            .unwrap()
            .is_empty()
    );
}

pub async fn a_fence_holds_only_with_its_claim(fixture: Fixture) {
    write(&fixture, vec![put(lineage("a.example"))])
        .await
        .unwrap();
    let late = claim_named(&fixture, "a").await.unwrap().epoch;
    let says = async |fence, what: &str| refused(&fixture, fence, what).await;
    says(Fence::Absent, "exists already").await;
    says(Fence::Epoch(late + 1), "claimed by another").await;
    fixture.advance(10);
    says(Fence::Epoch(late), "has ended").await;
    let held = claim_named(&fixture, "b").await.unwrap();
    says(Fence::Epoch(late), "claimed by another").await;
    // With its claim it is written, and keeps it or gives it back.
    let mut kept = read(&fixture, "a.example").await.unwrap();
    kept.attempts = 1;
    let fenced = |lineage| vec![Write::PutLineage(lineage, Fence::Epoch(held.epoch))];
    write(&fixture, fenced(kept.clone())).await.unwrap();
    assert_eq!(read(&fixture, "a.example").await.as_ref(), Some(&kept));
    assert_eq!(kept.claim, Some(held.clone()));
    kept.claim = None;
    write(&fixture, fenced(kept)).await.unwrap();
    says(Fence::Epoch(held.epoch), "has ended").await;
    let next = claim_named(&fixture, "a").await.unwrap();
    assert!(next.epoch > held.epoch);
    // Removed and made anew, it has no claim, and never an earlier epoch.
    let remove = Write::RemoveLineage(name("a.example"), Fence::Epoch(next.epoch));
    write(&fixture, vec![remove]).await.unwrap();
    says(Fence::Epoch(next.epoch), "does not exist").await;
    let mut anew = lineage("a.example");
    anew.claim = Some(next.clone());
    write(&fixture, vec![Write::PutLineage(anew, Fence::Absent)])
        .await
        .unwrap();
    assert_eq!(read(&fixture, "a.example").await.unwrap().claim, None);
    assert!(claim_named(&fixture, "a").await.unwrap().epoch > next.epoch);
}

pub async fn lineages_are_listed_by_name(fixture: Fixture) {
    let names = [
        "*.b.example",
        "a-b.example",
        "a.example",
        "a0.example",
        "b.example",
    ];
    let of = |(number, name): (usize, &&str)| {
        let mut lineage = lineage(name);
        lineage.attempts = u32::from(number % 2 == 1);
        let id = CredentialId::from_u64(number as u64);
        lineage.credential = (number < 3).then_some(id);
        put(lineage)
    };
    let writes = names.iter().enumerate().map(of).rev();
    write(&fixture, writes.collect()).await.unwrap();
    for (which, expected) in [
        (Listed::All, &names[..]),
        (Listed::Failing, &["a-b.example", "a0.example"]),
        (Listed::Without, &["a0.example", "b.example"]),
    ] {
        let mut listed: Vec<LineageName> = Vec::new();
        while let page = fixture
            .catalog
            .list_lineages(which, listed.last(), 2)
            .await
            .unwrap()
            && !page.is_empty()
        {
            assert!(page.len() <= 2);
            listed.extend(page.into_iter().map(|one| one.name));
        }
        let listed: Vec<_> = listed.iter().map(LineageName::as_str).collect();
        assert_eq!(listed, expected);
    }
}

pub async fn an_order_is_sealed_again(fixture: Fixture) {
    let mut with = lineage("a.example");
    with.order = Some(sealed(b"old"));
    write(&fixture, vec![put(with.clone()), put(lineage("b.example"))])
        .await
        .unwrap();
    claim_named(&fixture, "a").await.unwrap();
    let reseal = |of: &str, from: &[u8]| Reseal {
        of: SecretOf::Lineage(name(of)),
        version: 0,
        from: sealed(from),
        to: sealed(b"new"),
    };
    let reseals = vec![
        reseal("b.example", b"old"),
        reseal("c.example", b"old"),
        reseal("a.example", b"other"),
    ];
    let number = fixture.number().await;
    for (reseals, expected) in [
        (reseals, b"old"),
        (vec![reseal("a.example", b"old")], b"new"),
    ] {
        let batch = Batch::unchecked(Vec::new()).with_reseals(reseals);
        assert_eq!(fixture.catalog.write(batch).await.unwrap(), number);
        let is = read(&fixture, "a.example").await.unwrap();
        assert_eq!(is.order, Some(sealed(expected)));
        assert!(is.claim.is_some(), "the claim stays");
    }
    assert_eq!(
        read(&fixture, "b.example").await,
        Some(lineage("b.example"))
    );
}

/// Other writes of a batch with a lineage take numbers as ever.
pub async fn challenges_are_no_changes(fixture: Fixture) {
    let before = fixture.catalog.head().await.unwrap();
    let id = DocumentId::new("challenge-http-01", "token");
    let mut document = fixture.document("challenge-http-01", "token", b"x");
    document.expires = Some(fixture.now() + 10);
    let put_document = Write::PutDocument(document, Precondition::Any);
    let number = write(&fixture, vec![put_document.clone()]).await.unwrap();
    assert_eq!(number, before.number);
    let stored = fixture.catalog.document(&id).await.unwrap().unwrap();
    assert_eq!((stored.version, stored.bytes), (number, sealed(b"x")));
    let writes = vec![
        put(lineage("a.example")),
        put_document.clone(),
        put_host(record("a.example", &[])),
        put_document,
    ];
    assert_eq!(write(&fixture, writes).await.unwrap(), number + 1);
    write(
        &fixture,
        vec![Write::RemoveDocument(id.clone(), Precondition::Any)],
    )
    .await
    .unwrap();
    assert!(fixture.catalog.document(&id).await.unwrap().is_none());
    let page = fixture.catalog.changes(number, 9).await.unwrap();
    assert_eq!((page.last, page.changes.len()), (number + 1, 1));
}

/// A batch under this fence conflicts, says so, and changes nothing.
async fn refused(fixture: &Fixture, fence: Fence, what: &str) {
    let before = (fixture.number().await, read(fixture, "a.example").await);
    let credential = fixture.credential();
    let id = credential.id;
    let writes = vec![
        Write::PutCredential(credential, Precondition::Absent),
        put_host(record("a.example", &[(KeyType::Ecdsa, id)])),
        Write::PutLineage(lineage("a.example"), fence),
    ];
    for writes in [writes, vec![Write::RemoveLineage(name("a.example"), fence)]] {
        let error = write(fixture, writes).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("lineage a.example") && text.contains(what),
            "{text}"
        );
    }
    assert!(!fixture.has(id).await);
    assert_eq!(
        before,
        (fixture.number().await, read(fixture, "a.example").await)
    );
}

pub(super) fn name(text: &str) -> LineageName {
    LineageName::parse(text).unwrap()
}

pub(super) fn lineage(name: &str) -> Lineage<SealedBytes> {
    Lineage::new(Tenant::default(), [pattern(name)]).unwrap()
}

pub(super) fn due(name: &str, due: Option<i64>, turn: i64) -> Write<SealedBytes> {
    let mut lineage = lineage(name);
    (lineage.due, lineage.turn) = (due, turn);
    put(lineage)
}

pub(super) fn put(lineage: Lineage<SealedBytes>) -> Write<SealedBytes> {
    Write::PutLineage(lineage, Fence::Any)
}

pub(super) async fn write(
    fixture: &Fixture,
    writes: Vec<Write<SealedBytes>>,
) -> Result<u64, StoreError> {
    fixture.catalog.write(Batch::unchecked(writes)).await
}

pub(super) async fn read(fixture: &Fixture, of: &str) -> Option<Lineage<SealedBytes>> {
    let mut found = fixture.catalog.lineages(&[name(of)]).await.unwrap();
    assert!(found.len() <= 1);
    found.pop()
}

/// Claims `a.example`.
async fn claim_named(fixture: &Fixture, holder: &str) -> Option<Claim> {
    let which = ToClaim::Named(vec![name("a.example")]);
    let mut claimed = fixture.catalog.claim(which, holder, TTL).await.unwrap();
    claimed.pop().map(|(_, claim)| claim)
}
