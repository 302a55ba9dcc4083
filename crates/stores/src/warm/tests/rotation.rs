//! Copies when the master key of the catalog was changed.

use super::*;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::sealed::{Sealed, Walk};

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
    let there = Sealed::create(Arc::clone(&rig.there.catalog), both()).await;
    let there = there.unwrap();
    rig.fill(there).await;
    let started = async || {
        let (warm, copies) = rig.warm();
        let sealed = Sealed::open(Arc::new(warm), both()).await.unwrap();
        let at = sealed.position().await.unwrap();
        (sealed, copies, at)
    };
    let (sealed, copies, at) = started().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&sealed, name).await, name);
    }
    kept(&copies, 2).await;

    let rotating = Sealed::open(Arc::clone(&rig.there.catalog), both()).await;
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
    let (warm, _copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), KeyRing::new(new())).await;
    let sealed = sealed.unwrap();
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&sealed, name).await, name);
    }
}

/// The store has a sealing that opens, so it is no damage of the host.
#[tokio::test]
async fn a_copy_under_a_key_that_is_gone_fails_for_now() {
    let rig = Rig::new();
    let both = || KeyRing::new(old()).with(new());
    let there = Sealed::create(Arc::clone(&rig.there.catalog), both()).await;
    rig.fill(there.unwrap()).await;
    let (warm, copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), both()).await.unwrap();
    let at = sealed.position().await.unwrap();
    assert_eq!(who(&sealed, "a.example").await, "a.example");
    kept(&copies, 1).await;
    let rotating = Sealed::open(Arc::clone(&rig.there.catalog), both()).await;
    rotating.unwrap().seal_under(new().id()).await.unwrap();
    sealed.changes(at.number, 100).await.unwrap();
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (warm, _copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), KeyRing::new(new())).await;
    let error = ask(&sealed.unwrap(), "a.example").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("does not open"), "{error}");
}

impl Rig {
    /// Puts two hosts through what seals.
    async fn fill(&self, sealed: Sealed) {
        let fixture = Fixture {
            catalog: Arc::new(sealed),
            clock: Arc::clone(&self.there.clock),
            sealed: false,
            keep: Box::new(()),
        };
        for name in ["a.example", "b.example"] {
            fixture.put(name).await;
        }
    }
}
