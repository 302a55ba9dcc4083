//! Tests the budget of a prefix: cancelled requests don't escape it.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{LIMITS, Running, Scripted, Setup, host, start};
use http_body_util::Empty;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tokio::time::timeout;

type Sender = SendRequest<Empty<Bytes>>;

/// Starts a server whose store hangs, and an HTTP/2 client whose certificate
/// covers all names below `b.example`.
async fn hanging(limits: Limits) -> (Running, Sender) {
    let ca = TestCa::new();
    let pair = ca.issue(&["*.b.example"], Key::P256);
    let hosts = [host("a.b.example", &[(&pair, Key::P256)])];
    let running = start(Scripted::new(hosts), &Setup::limits(limits));
    let mut config = client::config(&ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = client::connect(running.address, "a.b.example", config).await;
    let io = TokioIo::new(stream.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    running.store.hold();
    (running, sender)
}

/// Timeout that is longer than any answer in these tests.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

async fn ask(sender: &mut Sender, name: &str) -> u16 {
    let uri = format!("https://{name}/");
    let request = http::Request::get(uri).body(Empty::new()).unwrap();
    let answer = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
    let answer = answer.expect("no call to the hanging store").unwrap();
    answer.status().as_u16()
}

/// Sends a request and cancels it (`RST_STREAM`) once the store was called.
/// Returns the status if it was answered instead.
async fn cancel(running: &Running, sender: &mut Sender, name: &str) -> Option<u16> {
    let before = running.store.calls();
    let called = async {
        while running.store.calls() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let status = tokio::select! {
        () = called => None,
        status = ask(sender, name) => Some(status),
    };
    // This answer proves that the reset before it has arrived.
    assert_eq!(ask(sender, "a.b.example").await, 308);
    status
}

#[tokio::test]
async fn a_cancelled_request_for_an_absent_name_stays_charged() {
    let (running, mut sender) = hanging(Limits {
        absent_per_prefix: 3,
        ..LIMITS
    })
    .await;
    // The handshake's own lookup found a record and cost no token.
    for number in 0..3 {
        let name = format!("random{number}.b.example");
        assert_eq!(cancel(&running, &mut sender, &name).await, None, "{name}");
    }
    for name in ["random3.b.example", "random4.b.example"] {
        assert_eq!(cancel(&running, &mut sender, name).await, Some(503));
    }
    assert_eq!(running.store.calls(), 4);
    running.store.unhold();
    let landed = async {
        while running.lookup.stats().in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(ANSWER_TIMEOUT, landed).await.unwrap();
    assert_eq!(ask(&mut sender, "random0.b.example").await, 421, "cached");
    assert_eq!(ask(&mut sender, "random5.b.example").await, 503);
    assert_eq!(running.store.calls(), 4);
}

#[tokio::test]
async fn a_cancelled_request_keeps_its_load_until_it_lands() {
    let limits = Limits {
        loads: 2,
        loads_per_prefix: 2,
        loads_waiting: 0,
        ..LIMITS
    };
    let (running, mut sender) = hanging(limits).await;
    for number in 0..2 {
        let name = format!("random{number}.b.example");
        assert_eq!(cancel(&running, &mut sender, &name).await, None, "{name}");
    }
    assert_eq!(ask(&mut sender, "random2.b.example").await, 503);
    assert_eq!(running.store.calls(), 3);
    running.store.unhold();
    let landed = async {
        while ask(&mut sender, "random3.b.example").await == 503 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(ANSWER_TIMEOUT, landed).await.unwrap();
}
