//! Tests connections that begin with a header of the PROXY protocol.

#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::metrics::figure;
use common::{LIMITS, Running, Scripted, Setup, host, raw, start};
use sekisho_certs::Site;
use sekisho_server::Limits;
use sekisho_server::network::{Network, Networks};
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CLIENT: &str = "PROXY TCP4 192.0.2.1 198.51.100.2 49152 443\r\n";

fn networks(texts: &[&str]) -> Networks {
    let parsed = texts.iter().map(|text| Network::parse(text).unwrap());
    parsed.collect()
}

/// Starts a server for which peers in these networks are proxies.
fn serve(ca: &TestCa, proxies: &[&str], limits: Limits) -> Running {
    let pair = ca.issue(&["a.example"], Key::P256);
    let mut setup = Setup::limits(limits);
    setup.settings.proxies = networks(proxies);
    start(
        Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
        &setup,
    )
}

/// Makes a header of version 2.
fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    [
        signature.as_slice(),
        &[0x20 | command, family],
        &length,
        block,
    ]
    .concat()
}

fn block4() -> Vec<u8> {
    [192, 0, 2, 1, 198, 51, 100, 2, 0xc0, 0, 1, 0xbb].to_vec()
}

fn block6() -> Vec<u8> {
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    let IpAddr::V6(address) = address else {
        unreachable!("it is IPv6");
    };
    [
        &address.octets()[..],
        &address.octets(),
        &[0xc0, 0, 1, 0xbb],
    ]
    .concat()
}

/// Fetches a page behind a header, sent in pieces of `piece` bytes.
async fn fetch(running: &Running, ca: &TestCa, header: &[u8], piece: usize) -> io::Result<String> {
    let mut socket = TcpStream::connect(running.address).await?;
    socket.set_nodelay(true)?;
    for piece in header.chunks(piece) {
        socket.write_all(piece).await?;
        tokio::task::yield_now().await;
    }
    let mut stream = client::handshake(socket, "a.example", client::config(ca)).await?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn counted(running: &Running, result: &str, times: u64) {
    let name = format!("sekisho_proxy_headers_total{{result=\"{result}\"}}");
    let counted = async {
        while figure(running, &name).await != times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let counted = timeout(Duration::from_secs(10), counted).await;
    assert!(counted.is_ok(), "{result} was not counted {times} times");
}

#[tokio::test]
async fn headers_of_both_versions_lead_to_a_handshake() {
    let ca = TestCa::new();
    let running = serve(&ca, &["127.0.0.0/8"], LIMITS);
    let tlvs = [block4(), b"\x02\0\x09a.example".to_vec(), vec![4; 2000]].concat();
    let headers = [
        CLIENT.as_bytes().to_vec(),
        b"PROXY TCP6 2001:db8::1 2001:db8::2 49152 443\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        binary(1, 0x11, &block4()),
        binary(1, 0x21, &block6()),
        binary(1, 0x11, &tlvs),
        binary(1, 0x00, &[]),
        binary(0, 0x00, &[]),
    ];
    for header in &headers {
        for piece in [usize::MAX, 7, 1] {
            let answer = fetch(&running, &ca, header, piece).await;
            let answer = answer.unwrap_or_else(|error| panic!("{header:?}: {error}"));
            assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
        }
    }
    counted(&running, "client", 15).await;
    counted(&running, "unknown", 6).await;
    counted(&running, "local", 3).await;
}

/// A proxy that hides its client is not taken for it, and believed no field about it.
#[tokio::test]
async fn no_list_of_networks_admits_a_client_that_a_header_hides() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let mut setup = Setup::limits(LIMITS);
    setup.settings.proxies = networks(&["127.0.0.0/8"]);
    setup.settings.trusted = networks(&["127.0.0.0/8"]);
    let mut found = host("a.example", &[(&pair, Key::P256)]);
    found.record.site = Some(Site {
        format: 2,
        json: r#"{"status": 404, "allow": ["127.0.0.0/8", "192.0.2.0/24"]}"#.into(),
    });
    let running = start(Scripted::new([found]), &setup);
    for (header, expected) in [
        (CLIENT.as_bytes().to_vec(), 404),
        (b"PROXY UNKNOWN\r\n".to_vec(), 403),
        (binary(1, 0x00, &[]), 403),
        // The proxy's own connection, as its health checks are.
        (binary(0, 0x00, &[]), 404),
    ] {
        let answer = fetch(&running, &ca, &header, usize::MAX).await.unwrap();
        let status = format!("HTTP/1.1 {expected} ");
        assert!(answer.starts_with(&status), "{header:?}: {answer}");
    }
}

#[tokio::test]
async fn a_stranger_has_no_header_and_a_proxy_must_have_one() {
    let ca = TestCa::new();
    let running = serve(&ca, &["192.0.2.7", "::1"], LIMITS);
    for header in [CLIENT.as_bytes().to_vec(), binary(1, 0x11, &block4())] {
        let answer = fetch(&running, &ca, &header, usize::MAX).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    common::metrics::counted(&running, "not_tls", 2).await;
    assert!(fetch(&running, &ca, b"", 1).await.is_ok());

    let running = serve(&ca, &["127.0.0.1"], LIMITS);
    let answer = fetch(&running, &ca, b"", 1).await;
    assert!(answer.is_err(), "{answer:?}");
    counted(&running, "malformed", 1).await;
    assert_eq!(running.store.calls(), 0);
}

#[tokio::test]
async fn a_header_that_is_cut_or_malformed_closes_the_connection() {
    let ca = TestCa::new();
    let running = serve(&ca, &["127.0.0.1"], LIMITS);
    let mut cuts = 0;
    for header in [CLIENT.as_bytes().to_vec(), binary(1, 0x11, &block4())] {
        for cut in 1..header.len() {
            let mut socket = TcpStream::connect(running.address).await.unwrap();
            socket.write_all(&header[..cut]).await.unwrap();
            socket.shutdown().await.unwrap();
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).await.unwrap();
            assert!(answer.is_empty(), "{cut}: {answer:?}");
            cuts += 1;
        }
    }
    counted(&running, "cut", cuts).await;

    let malformed = [
        b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1\r\n".to_vec(),
        [b"PROXY ", [b'x'; 200].as_slice()].concat(),
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c".to_vec(),
        binary(1, 0x11, &vec![0; 60_000]),
    ];
    for bytes in &malformed {
        assert_eq!(raw(running.address, bytes).await, b"");
    }
    counted(&running, "malformed", malformed.len() as u64).await;
    assert_eq!(
        figure(&running, "sekisho_handshakes_total{result=\"aborted\"}").await,
        0
    );
}

#[tokio::test]
async fn a_check_of_the_proxy_is_no_failure() {
    let ca = TestCa::new();
    let running = serve(&ca, &["127.0.0.1"], LIMITS);
    drop(TcpStream::connect(running.address).await.unwrap());
    counted(&running, "closed", 1).await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    socket.write_all(&binary(0, 0, &[])).await.unwrap();
    counted(&running, "local", 1).await;
    drop(socket);
    for running_address in [running.address, running.http] {
        let mut socket = TcpStream::connect(running_address).await.unwrap();
        socket.write_all(&binary(0, 0, &[])).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"");
    }
    for result in ["aborted", "not_tls", "timed_out"] {
        let name = format!("sekisho_handshakes_total{{result=\"{result}\"}}");
        assert_eq!(figure(&running, &name).await, 0, "{result}");
    }
}

#[tokio::test]
async fn a_header_shares_the_deadline_of_what_follows() {
    let ca = TestCa::new();
    let short = Duration::from_millis(300);
    let limits = Limits {
        handshake: short,
        head: short,
        ..LIMITS
    };
    let running = serve(&ca, &["127.0.0.1"], limits);
    for address in [running.address, running.http] {
        for bytes in ["", "PROXY TCP4", CLIENT] {
            let begun = tokio::time::Instant::now();
            let closed = timeout(Duration::from_secs(5), raw(address, bytes.as_bytes())).await;
            assert_eq!(closed.expect("closed in time"), b"");
            assert!(
                begun.elapsed() >= short - Duration::from_millis(50),
                "{bytes:?}"
            );
        }
    }
    counted(&running, "timed_out", 4).await;
    common::metrics::counted(&running, "timed_out", 1).await;
}

#[tokio::test]
async fn plain_http_has_a_header_too() {
    let ca = TestCa::new();
    let running = serve(&ca, &["127.0.0.1"], LIMITS);
    let request = "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let answer = raw(running.http, format!("{CLIENT}{request}").as_bytes()).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
    assert_eq!(raw(running.http, request.as_bytes()).await, b"");
}

/// A proxy's connections count for its clients: a crowd behind it takes no
/// other client's place.
#[tokio::test]
async fn shares_are_those_of_the_clients() {
    let ca = TestCa::new();
    let limits = Limits {
        workers: 1,
        connections: 64,
        ..LIMITS
    };
    let running = serve(&ca, &["127.0.0.1"], limits);
    let mut crowd = Vec::new();
    for port in 0..64 {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        let header = format!("PROXY TCP4 192.0.2.1 198.51.100.2 {port} 443\r\n");
        socket.write_all(header.as_bytes()).await.unwrap();
        crowd.push(socket);
    }
    let other = b"PROXY TCP4 203.0.113.1 198.51.100.2 1 443\r\n";
    let answer = fetch(&running, &ca, other, usize::MAX);
    let answer = timeout(Duration::from_secs(30), answer).await;
    let answer = answer.expect("served at once").unwrap();
    assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
    assert!(figure(&running, "sekisho_connections_given_up_total").await > 0);
}

/// At the limit, a connection without its header keeps others waiting for a second at most.
#[tokio::test]
async fn a_header_is_late_after_a_second_at_the_limit() {
    let ca = TestCa::new();
    let limits = Limits {
        workers: 1,
        connections: 2,
        handshake: Duration::from_secs(120),
        ..LIMITS
    };
    let running = serve(&ca, &["127.0.0.1"], limits);
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let mut byte = [0];
    let ended = timeout(Duration::from_secs(20), silent[2].read(&mut byte)).await;
    assert_eq!(ended.expect("closed in time").unwrap(), 0);
    counted(&running, "timed_out", 1).await;
    for socket in &silent[..2] {
        let error = socket.try_read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "within the limit");
    }
}

/// Absent names are charged to the client that the header names.
#[tokio::test]
async fn budgets_are_those_of_the_clients() {
    let ca = TestCa::new();
    let limits = Limits {
        handshake: Duration::from_secs(2),
        absent_per_prefix: 1,
        ..LIMITS
    };
    let running = serve(&ca, &["127.0.0.1"], limits);
    let refused = async |client: SocketAddr, name: &str| {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        let header = format!(
            "PROXY TCP4 {} 198.51.100.2 {} 443\r\n",
            client.ip(),
            client.port()
        );
        socket.write_all(header.as_bytes()).await.unwrap();
        let refused = client::handshake(socket, name, client::config(&ca)).await;
        refused.unwrap_err().to_string()
    };
    let greedy = "192.0.2.1:1".parse().unwrap();
    let mut over = false;
    for number in 0..20 {
        let alert = refused(greedy, &format!("nobody-{number}.example")).await;
        // Beyond its budget, a client waits for its deadline.
        over = alert.contains("InternalError");
        if over {
            break;
        }
    }
    assert!(over, "the client never came over its budget");
    let other = "203.0.113.1:1".parse().unwrap();
    let alert = refused(other, "nobody.example").await;
    assert!(alert.contains("UnrecognisedName"), "{alert}");
}
