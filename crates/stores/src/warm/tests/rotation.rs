//! Copies when the master key of the catalog was changed.

use super::*;
use sekisho_certs::contract::fixture::{host_with, plain};
use sekisho_certs::seal::{MasterKey, Walk};

fn old() -> MasterKey {
    MasterKey::new(&[5; 32])
}

fn new() -> MasterKey {
    MasterKey::new(&[6; 32])
}

/// Found by thought: a secret that is sealed again keeps its version, so that
/// its copy passed for the same, and never opened again without the old key.
#[tokio::test]
async fn a_host_that_is_read_again_needs_the_old_key_no_more() {
    let rig = Rig::new();
    let both = || KeyRing::new(old()).with(new());
    let there = Sealer::create(Arc::clone(&rig.there.catalog), both()).await;
    let there = there.unwrap();
    rig.fill(there).await;
    let started = async || {
        let (sealed, copies) = rig.opened(both()).await.unwrap();
        let at = sealed.head().await.unwrap();
        (sealed, copies, at)
    };
    let (sealed, copies, at) = started().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&sealed, name).await, name);
    }
    kept(&copies, 2).await;

    let rotating = Sealer::open(Arc::clone(&rig.there.catalog), both()).await;
    let rotating = rotating.unwrap();
    rotating.seal_under(new().id()).await.unwrap();
    let secrets = rotating.secrets(&mut Walk::new(), 10).await.unwrap();
    assert_eq!(rotating.reseal(&secrets).await.unwrap().sealed, 2);
    sealed.changes(at.number, 100).await.unwrap();
    // One is read again by the same process, the other by the next.
    assert_eq!(who(&sealed, "a.example").await, "a.example");
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((sealed, copies));
    let (sealed, copies, _) = started().await;
    assert_eq!(who(&sealed, "b.example").await, "b.example");
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (sealed, _copies) = rig.opened(KeyRing::new(new())).await.unwrap();
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&sealed, name).await, name);
    }
}

/// The store has a sealing that opens, so it is no damage of the host.
#[tokio::test]
async fn a_copy_under_a_key_that_is_gone_fails_for_now() {
    let rig = Rig::new();
    let both = || KeyRing::new(old()).with(new());
    let there = Sealer::create(Arc::clone(&rig.there.catalog), both()).await;
    rig.fill(there.unwrap()).await;
    let (sealed, copies) = rig.opened(both()).await.unwrap();
    let at = sealed.head().await.unwrap();
    assert_eq!(who(&sealed, "a.example").await, "a.example");
    kept(&copies, 1).await;
    let rotating = Sealer::open(Arc::clone(&rig.there.catalog), both()).await;
    rotating.unwrap().seal_under(new().id()).await.unwrap();
    sealed.changes(at.number, 100).await.unwrap();
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (sealed, _copies) = rig.opened(KeyRing::new(new())).await.unwrap();
    let error = ask(&sealed, "a.example").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("does not open"), "{error}");
}

impl Rig {
    /// Puts two hosts through what seals.
    async fn fill(&self, sealer: Sealer) {
        for (name, number) in [("a.example", 1), ("b.example", 2)] {
            let host = host_with(name, number, plain);
            sealer.write(host).await.unwrap();
        }
    }
}
