//! The sentences of [`sekisho_certs::Lease`], which hold by the catalog's documents.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::{Clock, Lease, Sealer};

use super::fixture::Fixture;

/// Takes the lease. Each server has a clock that agrees with the catalog's.
async fn take(sealer: &Sealer, clock: &Clock) -> Option<Lease> {
    let ttl = Duration::from_secs(10);
    let taken = Lease::take(sealer, "name".to_owned(), ttl, clock).await;
    taken.unwrap()
}

async fn sealer(fixture: &Fixture) -> (Sealer, Clock) {
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    let sealer = Sealer::create(Arc::clone(&fixture.catalog), ring).await;
    (sealer.unwrap(), Clock::Manual(Arc::clone(&fixture.clock)))
}

pub async fn one_of_many_takes_a_lease(fixture: Fixture) {
    let (sealer, clock) = sealer(&fixture).await;
    let before = fixture.number().await;
    let tries = (0..16).map(|_| {
        let (sealer, clock) = (sealer.clone(), clock.clone());
        tokio::spawn(async move { take(&sealer, &clock).await })
    });
    let taken = join_all(tries).await.into_iter();
    assert_eq!(taken.filter_map(Result::unwrap).count(), 1);
    assert_eq!(fixture.number().await, before);
    // Another name is another lease.
    let other = Lease::take(&sealer, "other".to_owned(), Duration::from_secs(10), &clock);
    assert!(other.await.unwrap().is_some());
}

pub async fn an_expired_lease_is_taken_over(fixture: Fixture) {
    let (sealer, clock) = sealer(&fixture).await;
    let first = take(&sealer, &clock).await.unwrap();
    fixture.advance(9);
    assert!(take(&sealer, &clock).await.is_none());
    fixture.advance(1);
    let second = take(&sealer, &clock).await.unwrap();
    assert!(!first.prolong().await.unwrap());
    // Too late: it is another's by now.
    first.release().await.unwrap();
    assert!(take(&sealer, &clock).await.is_none());
    // Nobody took it in the meantime.
    fixture.advance(10);
    assert!(second.prolong().await.unwrap());
    assert!(take(&sealer, &clock).await.is_none());
}

pub async fn its_holder_prolongs_and_releases_it(fixture: Fixture) {
    let (sealer, clock) = sealer(&fixture).await;
    let lease = take(&sealer, &clock).await.unwrap();
    fixture.advance(6);
    assert!(lease.prolong().await.unwrap());
    // Past the first end, before the later one.
    fixture.advance(9);
    assert!(take(&sealer, &clock).await.is_none());
    lease.release().await.unwrap();
    assert!(take(&sealer, &clock).await.is_some());
}
