//! Tests the bounds of connections.

use std::time::Duration;

use hickory_proto::rr::RecordType;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::{answer, connect, question, send, start};

#[tokio::test]
async fn tcp_connections_are_shared() {
    let running = start("127.0.0.1");
    let question = |name: &str| question(name, RecordType::A);
    let mut open = Vec::new();
    for _ in 0..OF_NETWORK {
        let mut stream = connect([127, 0, 0, 1], running.address).await;
        send(&mut stream, &question("a.dcv.test.")).await;
        assert!(answer(&mut stream).await.is_some());
        open.push(stream);
    }
    let mut late = connect([127, 0, 0, 1], running.address).await;
    assert!(answer(&mut late).await.is_none());
    let mut other = connect([127, 2, 2, 1], running.address).await;
    // Answers come in the order of their questions.
    for name in ["a.dcv.test.", "b.dcv.test.", "c.dcv.test."] {
        send(&mut other, &question(name)).await;
    }
    for name in ["a.dcv.test.", "b.dcv.test.", "c.dcv.test."] {
        let message = answer(&mut other).await.unwrap();
        assert_eq!(message.queries[0].name().to_ascii(), name);
    }
    // No question is that long.
    other.write_all(&[0xff; 600]).await.unwrap();
    assert!(answer(&mut other).await.is_none());
    open.pop();
    let again = async {
        loop {
            let mut stream = connect([127, 0, 0, 1], running.address).await;
            send(&mut stream, &question("a.dcv.test.")).await;
            if answer(&mut stream).await.is_some() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(5), again).await.unwrap();
}

#[tokio::test]
async fn connections_of_a_provider_are_bounded() {
    let running = start("127.0.0.1");
    let question = question("a.dcv.test.", RecordType::A);
    let opened = async |from: [u8; 4]| {
        let mut stream = connect(from, running.address).await;
        send(&mut stream, &question).await;
        answer(&mut stream).await.map(|_| stream)
    };
    let mut open = Vec::new();
    for number in 0..OF_WIDER {
        let network = if number < OF_NETWORK { 1 } else { 2 };
        open.push(opened([127, 3, network, 1]).await.unwrap());
    }
    assert!(opened([127, 3, 3, 1]).await.is_none());
    assert!(opened([127, 4, 3, 1]).await.is_some());
}

/// Connections that a network may have.
const OF_NETWORK: usize = 64;
/// Connections that all networks of a wider one may have.
const OF_WIDER: usize = 128;
