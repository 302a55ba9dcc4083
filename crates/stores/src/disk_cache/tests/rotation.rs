//! Copies when the master key of the catalog was changed.

use super::*;
use sekisho_certs::seal::Walk;

fn both() -> KeyRing {
    ring().with(master(6))
}

async fn rotating(rig: &Rig) -> Sealer {
    let sealer = Sealer::open(Arc::clone(&rig.there.catalog), both()).await;
    let sealer = sealer.unwrap();
    sealer.seal_under(master(6).id()).await.unwrap();
    sealer
}

async fn started(rig: &Rig) -> Server {
    let server = rig.server_with(both()).await.unwrap();
    server.follow().await;
    server
}

/// Found by thought: a secret that is sealed again keeps its version, so that
/// its copy passed for the same, and never opened again without the old key.
#[tokio::test]
async fn a_host_that_is_read_again_needs_the_old_key_no_more() {
    let rig = Rig::new();
    for name in ["a.example", "b.example"] {
        rig.put(name).await;
    }
    let server = started(&rig).await;
    for name in ["a.example", "b.example"] {
        assert_eq!(server.who(name).await, name);
    }
    server.kept(2).await;

    let rotating = rotating(&rig).await;
    let secrets = rotating.secrets(&mut Walk::default(), 10).await.unwrap();
    assert_eq!(rotating.reseal(&secrets).await.unwrap().sealed, 2);
    server.follow().await;
    // The first is read again by this process, the other by the next.
    assert_eq!(server.who("a.example").await, "a.example");
    server.settled().await;
    drop(server);
    let server = started(&rig).await;
    assert_eq!(server.who("b.example").await, "b.example");
    server.settled().await;
    drop(server);

    rig.switch.say(away());
    let server = rig.server_with(KeyRing::new(master(6))).await.unwrap();
    for name in ["a.example", "b.example"] {
        assert_eq!(server.who(name).await, name);
    }
}

/// The store has a sealing that opens, so it is no damage of the host.
#[tokio::test]
async fn a_copy_under_a_key_that_is_gone_fails_for_now() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = started(&rig).await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    rotating(&rig).await;
    server.follow().await;
    drop(server);

    rig.switch.say(away());
    let server = rig.server_with(KeyRing::new(master(6))).await.unwrap();
    let error = server.find("a.example").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("does not open"), "{error}");
}
