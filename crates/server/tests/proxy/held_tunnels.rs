//! Bytes of tunnels over HTTP/2 that their clients do not take.

use hyper_util::rt::TokioIo;

use crate::common::metrics::figure;
use crate::common::{LIMITS, Setup};
use crate::upgrades::{connect, switch};
use crate::uploads::{ended, held};
use crate::world::{HOST, Upstream, Wire, World, patiently};

/// Bytes that the upstream sends through each tunnel: more than the window of its stream.
const SENT: usize = 3 << 20;
/// Least number of bytes that a tunnel counts while its client takes none.
const STUCK: usize = 64 << 10;

/// Lets an upstream send [`SENT`] bytes through so many tunnels.
fn flood(upstream: Upstream, tunnels: usize) {
    tokio::spawn(async move {
        for _ in 0..tunnels {
            let mut server = upstream.accept().await;
            let head = server.head().await;
            tokio::spawn(async move {
                server.send(switch(&head)).await;
                server.send(vec![b'x'; SENT]).await;
            });
        }
    });
}

#[tokio::test]
async fn what_the_client_of_a_tunnel_does_not_take_is_counted() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    flood(upstream, 1);
    let mut client = world.http2().await;
    let answer = patiently(client.send_request(connect())).await.unwrap();
    held(&world, STUCK as u64..).await;
    let upgraded = patiently(hyper::upgrade::on(answer)).await.unwrap();
    let mut tunnel = Wire::new(TokioIo::new(upgraded));
    tunnel.exact(SENT).await;
    held(&world, ..=0).await;
}

#[tokio::test]
async fn a_connection_whose_tunnels_hold_too_much_ends() {
    let tunnels = 10;
    let upstream = Upstream::bind().await;
    let mut setup = Setup::limits(LIMITS);
    setup.settings.bodies = tunnels * STUCK - 1;
    let world = World::of_setup(setup, &[(HOST, &upstream.site())]);
    flood(upstream, tunnels);
    let mut client = world.http2().await;
    let asked: Vec<_> = (0..tunnels)
        .map(|_| tokio::spawn(client.send_request(connect())))
        .collect();
    ended(&mut client).await;
    held(&world, ..=0).await;
    let given_up = figure(&world.running, "sekisho_connections_given_up_total").await;
    assert_eq!(given_up, 1);
    drop(asked);
}
