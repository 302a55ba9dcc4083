//! Tests that connections of one client network keep no other network out.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use common::metrics::figure;
use common::{LIMITS, Running, Scripted, Setup, host, start};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt, sink, split};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Silent connections that come again when they are closed.
#[tokio::test]
async fn silent_connections_of_a_crowd_keep_no_other_network_out() {
    let world = Arc::new(World::new(1, 64));
    world.is_open_beside(96, World::be_silent).await;
}

#[tokio::test]
async fn silent_connections_of_a_crowd_at_four_workers_keep_none_out() {
    let world = Arc::new(World::new(4, 64));
    world.is_open_beside(128, World::be_silent).await;
}

/// A PING is no request: who sends some is idle.
#[tokio::test]
async fn connections_that_ping_keep_no_other_network_out() {
    let world = Arc::new(World::new(2, 24));
    world.is_open_beside(40, World::ping).await;
}

/// As behind a balancer that names no clients.
#[tokio::test]
async fn idle_connections_make_room_for_their_own_network() {
    let world = World::new(1, 4);
    let mut idle = Vec::new();
    while idle.len() < 4 {
        idle.push(world.connect(CROWD).await.unwrap());
    }
    // Refused for a second.
    let served = async { while world.connect(CROWD).await.is_err() {} };
    timeout(PATIENCE, served).await.expect("served");
    assert!(figure(&world.running, GIVEN_UP).await > 0);
}

struct World {
    ca: TestCa,
    running: Running,
    workers: usize,
    connections: usize,
}

impl World {
    fn new(workers: usize, connections: usize) -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&["a.example"], Key::P256);
        let hosts = [host("a.example", &[(&pair, Key::P256)])];
        // No connection ends by itself.
        let setup = Setup::limits(Limits {
            workers,
            connections,
            handshake: Duration::from_secs(120),
            ..LIMITS
        });
        let running = start(Scripted::new(hosts), &setup);
        Self {
            ca,
            running,
            workers,
            connections,
        }
    }

    /// Serves another network at once while `count` connections of a crowd do this.
    async fn is_open_beside<F>(self: Arc<Self>, count: usize, attack: fn(Arc<Self>) -> F)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let mut crowd = JoinSet::new();
        for _ in 0..count {
            let world = Arc::clone(&self);
            crowd.spawn(async move {
                loop {
                    let _ = attack(Arc::clone(&world)).await;
                    sleep(PAUSE).await;
                }
            });
        }
        let full = async { while figure(&self.running, GIVEN_UP).await == 0 {} };
        timeout(PATIENCE, full).await.expect("the limit is reached");
        let served = async {
            for _ in 0..HANDSHAKES {
                self.connect(ELSEWHERE).await.expect("a handshake");
            }
        };
        timeout(PATIENCE, served).await.expect("served at once");
        let open = figure(&self.running, "sekisho_connections_open").await;
        // Each worker has two sockets, and each of these one connection beyond the limit.
        let most = (self.connections + 2 * self.workers) as u64;
        assert!(open <= most, "{open} connections are open");
        crowd.shutdown().await;
    }

    async fn be_silent(self: Arc<Self>) -> io::Result<()> {
        let mut socket = dial(self.running.address, CROWD).await?;
        socket.read_u8().await.map(drop)
    }

    /// Sends a PING each 20 ms over HTTP/2.
    async fn ping(self: Arc<Self>) -> io::Result<()> {
        let socket = dial(self.running.address, CROWD).await?;
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::handshake(socket, "a.example", config).await?;
        let (mut from, mut to) = split(stream);
        to.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        to.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        let pings = async {
            loop {
                to.write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
                    .await?;
                sleep(Duration::from_millis(20)).await;
            }
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = pings => ended,
            ended = tokio::io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Finishes a handshake.
    async fn connect(&self, from: Ipv4Addr) -> io::Result<impl Sized + use<>> {
        let socket = dial(self.running.address, from).await?;
        client::handshake(socket, "a.example", client::config(&self.ca)).await
    }
}

async fn dial(address: SocketAddr, from: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(address).await
}

const CROWD: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);
const GIVEN_UP: &str = "sekisho_connections_given_up_total";
/// Pause of an attacker before it comes again: the test shares its processor.
const PAUSE: Duration = Duration::from_millis(5);
/// Handshakes of the other network, one after the other: 60 that wait for a third of a
/// second each are late.
const HANDSHAKES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(20);
