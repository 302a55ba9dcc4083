//! Entries whose sealing this server can't open.

use super::*;
use crate::catalog_store::CatalogStore;
use crate::contract::warmed;
use sekisho_certs::contract::Fixture;
use sekisho_certs::contract::fixture::{host_with, plain};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer, Walk};

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
    let sealer = Sealer::create(catalog, both()).await.unwrap();
    let host = host_with("a.example", 1, plain);
    sealer.write(host).await.unwrap();
    one.follow().await;
    one.usable().await;
    one.fill("a.example").await;
    sealer.seal_under(new().id()).await.unwrap();
    let secrets = sealer.secrets(&mut Walk::new(), 10).await.unwrap();
    assert_eq!(sealer.reseal(&secrets).await.unwrap().sealed, 1);
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
        keep: Box::new(()),
    });
    let warm = warm.await;
    let sealer = Sealer::open(Arc::clone(&warm.catalog), keys).await;
    let opened = CatalogStore::new(sealer.unwrap());
    let name = HostName::parse("a.example").unwrap();

    assert!(matches!(
        opened.find(&name).await,
        Ok(Answer { found: Some(_), .. })
    ));
    assert_eq!((counts.reads(Read::Hit), catalog.finds()), (1, 1));
    // Its answer took the entry's place.
    until("it is filled again", || counts.fills(Filled::Stored) == 1).await;
    assert!(matches!(
        opened.find(&name).await,
        Ok(Answer { found: Some(_), .. })
    ));
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
    let opened = CatalogStore::new(Sealer::open(store, keys).await.unwrap());
    catalog.fail(true);
    let name = HostName::parse("a.example").unwrap();
    let error = opened.find(&name).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    catalog.fail(false);
    assert!(matches!(
        opened.find(&name).await,
        Ok(Answer { found: Some(_), .. })
    ));
}
