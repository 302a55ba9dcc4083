//! Tests that connections of one client network keep no other network out.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::time::Duration;

use common::{LIMITS, Scripted, Setup, host, start};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn silent_connections_of_a_crowd_keep_no_other_network_out() {
    crowd_keeps_no_network_out(1).await;
}

#[tokio::test]
async fn silent_connections_of_a_crowd_at_four_workers_keep_none_out() {
    crowd_keeps_no_network_out(4).await;
}

async fn crowd_keeps_no_network_out(workers: usize) {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let hosts = [host("a.example", &[(&pair, Key::P256)])];
    let setup = Setup::limits(Limits {
        workers,
        connections: 64,
        handshake: Duration::from_secs(120),
        ..LIMITS
    });
    let running = start(Scripted::new(hosts), &setup);
    let mut crowd = Vec::new();
    // More connections than the limit: the last ones wait in the kernel's
    // backlog.
    for _ in 0..80 {
        crowd.push(TcpStream::connect(running.address).await.unwrap());
    }

    let socket = TcpSocket::new_v4().unwrap();
    let elsewhere = Ipv4Addr::new(127, 1, 0, 1);
    socket.bind((elsewhere, 0).into()).unwrap();
    let served = async {
        let socket = socket.connect(running.address).await.unwrap();
        client::handshake(socket, "a.example", client::config(&ca)).await
    };
    // No connection of the crowd ends by itself within 120 s.
    let served = timeout(Duration::from_secs(30), served).await;
    served.expect("served at once").expect("a handshake");

    let mut ended = 0;
    for socket in &mut crowd {
        let end = timeout(Duration::from_millis(10), socket.read_u8()).await;
        ended += usize::from(end.is_ok());
    }
    assert!(
        (1..=32).contains(&ended),
        "{ended} of the crowd were given up"
    );
}
