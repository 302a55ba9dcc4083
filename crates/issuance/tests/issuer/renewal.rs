use std::sync::Arc;

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, LineageName};

use crate::fixture::{Fixture, eventually, pattern, visit};

#[tokio::test]
async fn what_is_due_is_renewed_in_place() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    visit(&issuer, "a.example", Some(&record)).await;
    let before = fixture.lineage("a.example").await.unwrap();
    let id = before.credential.unwrap();
    let first = fixture.catalog.credentials(&[id]).await.unwrap();
    let name = LineageName::from(&pattern("a.example"));
    // A renewal by hand is not asked whether it is due.
    let issued = issuer.issue(&name).await.unwrap();
    assert_eq!((issued.credential, fixture.orders()), (id, 2));
    let second = fixture.catalog.credentials(&[id]).await.unwrap();
    assert_ne!(first[0].chain, second[0].chain);
    assert!(second[0].version > first[0].version, "it is announced");
}

#[tokio::test]
async fn a_server_takes_up_what_is_due_and_leaves_what_is_not() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    for name in ["a.example", "b.example"] {
        let record = fixture.host(name).await;
        visit(&issuer, name, Some(&record)).await;
    }
    // One is looked at again, though it is not due; one has never had a certificate.
    let mut known = fixture.lineage("a.example").await.unwrap();
    known.due = Some(0);
    fixture.host("c.example").await;
    let tenant = known.tenant.clone();
    let mut new = sekisho_certs::Lineage::new(tenant, [pattern("c.example")]).unwrap();
    new.due = Some(0);
    let writes = [known, new].map(|one| Write::PutLineage(one, Fence::Any));
    fixture.sealer.write(writes.to_vec()).await.unwrap();
    let renewing = tokio::spawn(Arc::clone(&fixture.issuer().await).renew_due());
    eventually(async || {
        let [a, c] = ["a.example", "c.example"].map(|name| fixture.lineage(name));
        let (a, c) = (a.await.unwrap(), c.await.unwrap());
        a.due > Some(Clock::System.now()) && c.credential.is_some()
    })
    .await;
    renewing.abort();
    assert_eq!(fixture.orders(), 3);
}
