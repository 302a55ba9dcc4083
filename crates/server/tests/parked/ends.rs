//! Tests how parked connections end.

use std::process::Stdio;
use std::time::Duration;

use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{FeedState, Follower as _, HostPattern, Tenant};
use sekisho_server::Limits;
use sekisho_testkit::{Key, client};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::common::{LIMITS, Running, host};
use super::{Fixture, LONG, REQUEST, answer, ask, encrypted, is_closed_politely};

#[tokio::test]
async fn the_drain_closes_parked_connections() {
    let fixture = Fixture::new(Limits {
        drain: LONG * 3,
        ..LIMITS
    });
    let mut parked = fixture.parked(client::config(&fixture.ca)).await;
    // A client that has sent no request yet may still send its first one.
    let mut unasked = fixture.connect(client::config(&fixture.ca)).await;
    fixture.parks(2).await;
    let mut asking = fixture.connect(client::config(&fixture.ca)).await;
    let request = encrypted(&mut asking);
    let (begin, rest) = request.split_at(request.len() / 2);
    asking.get_mut().0.write_all(begin).await.unwrap();
    fixture.parks(3).await;
    fixture.running.shutdown.drain();
    assert!(is_closed_politely(&mut parked).await);
    assert_eq!(ask(&mut unasked).await, 308);
    assert!(is_closed_politely(&mut unasked).await);
    asking.get_mut().0.write_all(rest).await.unwrap();
    assert_eq!(answer(&mut asking).await, 308);
    assert!(is_closed_politely(&mut asking).await);
    timeout(LONG, fixture.running.ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn the_idle_limit_closes_parked_connections() {
    let idle = Duration::from_secs(1);
    let fixture = Fixture::new(Limits { idle, ..LIMITS });
    for config in fixture.versions() {
        let mut stream = fixture.parked(config).await;
        assert!(is_closed_politely(&mut stream).await);
        drop(stream);
        fixture.closes_all().await;
    }
}

#[tokio::test]
async fn the_client_may_end_in_each_way() {
    let fixture = Fixture::new(LIMITS);
    for config in fixture.versions() {
        // close_notify and FIN.
        let mut stream = fixture.parked(config.clone()).await;
        stream.shutdown().await.unwrap();
        assert!(is_closed_politely(&mut stream).await);
        fixture.closes_all().await;

        // A request before them is answered: the client reads on.
        let mut stream = fixture.parked(config.clone()).await;
        stream.write_all(REQUEST).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(answer(&mut stream).await, 308);
        assert!(is_closed_politely(&mut stream).await);
        fixture.closes_all().await;

        // FIN alone.
        let mut stream = fixture.parked(config.clone()).await;
        stream.get_mut().0.shutdown().await.unwrap();
        assert!(is_closed_politely(&mut stream).await);
        fixture.closes_all().await;

        // RST.
        let mut stream = fixture.parked(config).await;
        stream.get_mut().0.set_zero_linger().unwrap();
        drop(stream);
        fixture.closes_all().await;
    }
}

/// rustls's client has no renegotiation; OpenSSL's has.
#[tokio::test]
async fn renegotiation_is_refused() {
    let fixture = Fixture::new(LIMITS);
    let address = fixture.running.address.to_string();
    let arguments = "s_client -tls1_2 -crlf -servername a.example -connect";
    let mut client = Command::new("openssl")
        .args(arguments.split(' '))
        .arg(address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("openssl");
    let mut keyboard = client.stdin.take().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let request = b"GET / HTTP/1.1\nHost: a.example\n\n";
    keyboard.write_all(request).await.unwrap();
    let answered = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("HTTP/1.1 308") {
                return;
            }
        }
        panic!("no answer");
    };
    timeout(LONG, answered).await.unwrap();
    fixture.parks(1).await;
    keyboard.write_all(b"R\n").await.unwrap();
    let output = timeout(LONG, client.wait_with_output()).await.unwrap();
    let errors = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(errors.contains("no renegotiation"), "{errors}");
    fixture.closes_all().await;
}

#[tokio::test]
async fn a_moved_host_ends_its_parked_connections() {
    let fixture = Fixture::new(LIMITS);
    let Fixture { pair, running, .. } = &fixture;
    let mut stream = fixture.parked(client::config(&fixture.ca)).await;
    let mut moved = host("a.example", &[(pair, Key::P256)]);
    moved.record.tenant = Tenant::parse("other").unwrap();
    running.store.put(moved);
    change(running, "a.example");
    assert_eq!(ask(&mut stream).await, 421);
    let mut rest = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut rest)).await;
    read.unwrap().expect("close_notify");
    fixture.closes_all().await;
}

/// Applies a change of this host to the lookup.
fn change(running: &Running, pattern: &str) {
    let log = LogId([7; 16]);
    running.lookup.restart(LogPosition {
        log,
        number: 0,
        mark: 0,
    });
    running.lookup.feed_is(FeedState::Healthy);
    running.lookup.apply(&ChangePage {
        log,
        last: 1,
        gap: false,
        mark_before: Some(0),
        mark_last: Some(0),
        changes: vec![Change {
            number: 1,
            subject: Subject::Host(HostPattern::parse(pattern).unwrap()),
            what: What::Put,
        }],
    });
}
