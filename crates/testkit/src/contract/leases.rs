//! The sentences on leases.

use std::sync::Arc;
use std::time::Duration;

use super::fixture::Fixture;
use sekisho_certs::store::Lease;

const TTL: Duration = Duration::from_secs(10);

async fn lease(fixture: &Fixture, holder: &str) -> Option<Lease> {
    fixture.catalog.lease("renewal", holder, TTL).await.unwrap()
}

pub async fn one_holds_a_lease_at_a_time(fixture: Fixture) {
    let fixture = Arc::new(fixture);
    let tries = (0..8).map(|holder| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { lease(&fixture, &holder.to_string()).await })
    });
    let mut held = Vec::new();
    for one in tries.collect::<Vec<_>>() {
        held.extend(one.await.unwrap());
    }
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].expires_ms, (fixture.now() + 10) * 1000);
    // Another name is another lease.
    let other = fixture.catalog.lease("other", "x", TTL).await.unwrap();
    assert!(other.is_some());
}

pub async fn a_token_grows_with_each_holder(fixture: Fixture) {
    let first = lease(&fixture, "a").await.unwrap();
    fixture.advance(6);
    let longer = lease(&fixture, "a").await.unwrap();
    assert_eq!(longer.token, first.token);
    assert_eq!(longer.expires_ms, first.expires_ms + 6000);
    // Past the first end, before the prolonged one.
    fixture.advance(6);
    assert_eq!(lease(&fixture, "b").await, None);
    fixture.advance(4);
    let second = lease(&fixture, "b").await.unwrap();
    assert!(second.token > first.token);
    assert_eq!(lease(&fixture, "a").await, None);
    fixture.advance(10);
    assert!(lease(&fixture, "a").await.unwrap().token > second.token);
}

pub async fn only_the_holder_gives_it_back(fixture: Fixture) {
    let first = lease(&fixture, "a").await.unwrap();
    fixture.catalog.release("renewal", "b").await.unwrap();
    assert_eq!(lease(&fixture, "b").await, None);
    fixture.catalog.release("renewal", "a").await.unwrap();
    let second = lease(&fixture, "b").await.unwrap();
    assert!(second.token > first.token);
    // Too late: it is another's by now.
    fixture.catalog.release("renewal", "a").await.unwrap();
    assert_eq!(lease(&fixture, "a").await, None);
}
