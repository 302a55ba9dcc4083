//! Copies whose sealing this server can't open.

use super::*;
use sekisho_certs::seal::Walk;

fn new() -> MasterKey {
    MasterKey::new(&[6; 32])
}

/// Redis keeps what was sealed under the old key, the catalog does not.
async fn rotated(bench: &Bench, one: &Server) {
    bench.put("a.example", 1).await;
    one.follow().await;
    one.usable().await;
    one.fill("a.example").await;
    let catalog = Arc::clone(&bench.memory) as Arc<dyn Catalog>;
    let both = KeyRing::new(master()).with(new());
    let sealer = Sealer::open(catalog, both).await.unwrap();
    sealer.seal_under(new().id()).await.unwrap();
    let secrets = sealer.secrets(&mut Walk::default(), 10).await.unwrap();
    assert_eq!(sealer.reseal(&secrets).await.unwrap().sealed, 1);
    one.follow().await;
}

#[tokio::test]
async fn a_copy_under_a_key_that_is_gone_is_a_miss() {
    let bench = Bench::new();
    let one = bench.server().await;
    rotated(&bench, &one).await;
    let two = bench.server_with(KeyRing::new(new())).await;
    let (catalog, counts) = (Arc::clone(&two.catalog), two.counts());

    assert_eq!(two.serves("a.example").await, Some(1));
    assert_eq!((counts.hits.get(), catalog.finds()), (1, 1));
    assert_eq!(counts.unusable_values.get(), 1);
    // The answer of the catalog took its place.
    until("it is filled again", || counts.stored.get() == 1).await;
    assert_eq!(two.serves("a.example").await, Some(1));
    assert_eq!((counts.hits.get(), catalog.finds()), (2, 1));
}

/// That heals when the catalog is back, and is no damage of the host.
#[tokio::test]
async fn without_the_catalog_such_a_copy_fails_for_now() {
    let bench = Bench::new();
    let one = bench.server().await;
    rotated(&bench, &one).await;
    let two = bench.server_with(KeyRing::new(new())).await;
    two.catalog.fail(true);
    let error = two.answer("a.example").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    two.catalog.fail(false);
    assert_eq!(two.serves("a.example").await, Some(1));
}
