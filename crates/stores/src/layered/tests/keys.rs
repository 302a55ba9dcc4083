//! Entries whose sealing this server can't open.

use super::*;
use crate::contract::warmed;
use sekisho_certs::contract::Fixture;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::sealed::{Sealed, Walk};

fn old() -> MasterKey {
    MasterKey::new(&[5; 32])
}

fn new() -> MasterKey {
    MasterKey::new(&[6; 32])
}

/// The level keeps what was sealed under the old key, the catalog does not.
async fn rotated(bench: &Bench, one: &Server) {
    let both = || KeyRing::new(old()).with(new());
    let catalog = Arc::clone(&bench.memory) as Arc<dyn Catalog>;
    let sealed = Sealed::create(catalog, both()).await.unwrap();
    let (_, clock) = Fixture::clock();
    let fixture = Fixture {
        catalog: Arc::new(sealed),
        clock,
        sealed: false,
        keep: Box::new(()),
    };
    fixture.put("a.example").await;
    one.follow().await;
    one.usable().await;
    one.fill("a.example").await;
    let catalog = Arc::clone(&bench.memory) as Arc<dyn Catalog>;
    let sealed = Sealed::open(catalog, both()).await.unwrap();
    sealed.seal_under(new().id()).await.unwrap();
    let secrets = sealed.secrets(&mut Walk::new(), 10).await.unwrap();
    assert_eq!(sealed.reseal(&secrets).await.unwrap().sealed, 1);
    one.follow().await;
}

#[tokio::test]
async fn an_entry_under_a_key_that_is_gone_is_read_from_the_catalog() {
    let bench = Bench::new();
    let one = bench.server().await;
    rotated(&bench, &one).await;
    let two = bench.server().await;
    let (catalog, counts) = (Arc::clone(&two.catalog), two.counts());
    let store = Arc::new(two.store);
    let keys = KeyRing::new(new());
    // As a server stacks them, with copies on disk between.
    let warm = warmed(Fixture {
        catalog: Arc::clone(&store) as Arc<dyn Catalog>,
        clock: Fixture::clock().1,
        sealed: true,
        keep: Box::new(()),
    });
    let warm = warm.await;
    let sealed = Sealed::open(Arc::clone(&warm.catalog), keys).await;
    let (sealed, name) = (sealed.unwrap(), HostName::parse("a.example").unwrap());

    assert!(matches!(sealed.find(&name).await, Ok(Answer::Found(_))));
    assert_eq!((counts.reads(Read::Hit), catalog.finds()), (1, 1));
    // Its answer took the entry's place.
    until("it is filled again", || counts.fills(Filled::Stored) == 1).await;
    assert!(matches!(sealed.find(&name).await, Ok(Answer::Found(_))));
    assert_eq!((counts.reads(Read::Hit), catalog.finds()), (2, 1));
}

/// It heals when the catalog is back, so it is no damage of the host.
#[tokio::test]
async fn without_the_catalog_such_an_entry_fails_for_now() {
    let bench = Bench::new();
    let one = bench.server().await;
    rotated(&bench, &one).await;
    let two = bench.server().await;
    let (catalog, store) = (Arc::clone(&two.catalog), Arc::new(two.store));
    let keys = KeyRing::new(new());
    let sealed = Sealed::open(store, keys).await.unwrap();
    catalog.fail(true);
    let name = HostName::parse("a.example").unwrap();
    let error = sealed.find(&name).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    catalog.fail(false);
    assert!(matches!(sealed.find(&name).await, Ok(Answer::Found(_))));
}
