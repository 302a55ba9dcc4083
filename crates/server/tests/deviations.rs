//! Records what rustls decides and where it deviates from the RFCs of TLS, as docs/tls.md
//! lists it.
//! A failing test means that rustls has changed.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use common::{Running, Scripted, Setup, host, raw, start};
use rustls::crypto::aws_lc_rs;
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
use rustls::pki_types::ServerName;
use rustls::server::ServerSessionMemoryCache;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
};
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

const NAME: &str = "a.example";

fn served() -> (TestCa, Pair, Running) {
    let ca = TestCa::new();
    let pair = ca.issue(&[NAME], Key::P256);
    let running = start(
        Scripted::new([host(NAME, &[(&pair, Key::P256)])]),
        &Setup::default(),
    );
    (ca, pair, running)
}

fn client_hello(config: ClientConfig) -> Vec<u8> {
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// RFC 7507, section 3, requires the alert inappropriate_fallback (86). With
/// TLS 1.3, the random of a ServerHello protects against a downgrade.
#[tokio::test]
async fn a_fallback_is_served() {
    let (ca, _, running) = served();
    let mut hello = client_hello(client::config_tls12(&ca));
    let renegotiation = hello.windows(2).position(|suite| suite == [0, 0xff]);
    let at = renegotiation.expect("a client of TLS 1.2 sends it");
    hello[at..at + 2].copy_from_slice(&[0x56, 0]);
    let mut socket = tokio::net::TcpStream::connect(running.address)
        .await
        .unwrap();
    socket.write_all(&hello).await.unwrap();
    let mut head = [0; 6];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!((head[0], head[5]), (HANDSHAKE, SERVER_HELLO));
}

/// The client's order decides between groups, not ours.
#[tokio::test]
async fn the_first_group_of_the_client_is_used() {
    let (ca, _, running) = served();
    for first in [X25519MLKEM768, X25519, SECP256R1, SECP384R1] {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![first, X25519, X25519MLKEM768, SECP256R1];
        let mut roots = RootCertStore::empty();
        roots.add(ca.root()).unwrap();
        let config = ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = client::connect(running.address, NAME, config).await;
        let stream = stream.unwrap();
        let (_, tls) = stream.get_ref();
        let used = tls.negotiated_key_exchange_group().unwrap();
        assert_eq!(used.name(), first.name());
        assert_eq!(tls.handshake_kind(), Some(HandshakeKind::Full));
    }
}

/// RFC 8446, section 9.2, requires the alert missing_extension (109).
#[tokio::test]
async fn a_hello_without_key_shares_gets_handshake_failure() {
    let (ca, _, running) = served();
    let hello = without_extension(&client_hello(client::config(&ca)), KEY_SHARE);
    let answer = raw(running.address, &hello).await;
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 40]);
}

/// RFC 8446, section 5, requires unexpected_message. rustls sends it.
#[tokio::test]
async fn a_change_of_ciphers_behind_the_handshake_gets_its_alert() {
    let (ca, _, running) = served();
    let mut stream = client::connect(running.address, NAME, client::config(&ca))
        .await
        .unwrap();
    let (socket, _) = stream.get_mut();
    socket.write_all(&[0x14, 3, 3, 0, 1, 1]).await.unwrap();
    let ended = stream.read_to_end(&mut Vec::new()).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("UnexpectedMessage"), "{error}");
}

/// RFC 5246, section 7.2.2, requires unexpected_message. rustls sends it.
#[tokio::test]
async fn data_before_the_end_of_the_handshake_gets_its_alert() {
    let (ca, _, running) = served();
    let hello = client_hello(client::config_tls12(&ca));
    let data = [0x17, 3, 3, 0, 1, 0];
    let answer = raw(running.address, &[&hello[..], &data].concat()).await;
    assert!(answer.ends_with(&[21, 3, 3, 0, 2, 2, 10]), "{answer:?}");
}

/// RFC 5246, section 7.2.2, requires unexpected_message. rustls sends no alert where it
/// finds that the client misbehaves.
#[tokio::test]
async fn some_misbehaviour_in_a_handshake_gets_no_alert() {
    let (ca, _, running) = served();
    let hello = client_hello(client::config_tls12(&ca));
    let warnings = [0x15, 3, 3, 0, 2, 1, 90].repeat(5);
    // A piece of a handshake message, and change_cipher_spec.
    let interleaved = [22, 3, 3, 0, 1, 16, 0x14, 3, 3, 0, 1, 1].to_vec();
    for bytes in [warnings, interleaved] {
        let answer = raw(running.address, &[&hello[..], &bytes].concat()).await;
        assert!(answer.ends_with(&SERVER_HELLO_DONE), "{answer:?}");
    }
}

/// RFC 8446, section 4.2.10, requires a server to skip early data that it can't
/// decrypt.
#[tokio::test]
async fn early_data_for_another_server_is_skipped_within_bounds() {
    let (ca, pair, running) = served();
    for (records, served) in [(1, true), (100, true), (1400, false)] {
        let config = Arc::new(with_ticket(&ca, &pair));
        let answer = send_early(&running, config, records).await;
        assert_eq!(answer.is_ok(), served, "{records}: {answer:?}");
        if let Err(error) = answer {
            assert!(error.to_string().contains("BadRecordMac"), "{error}");
        }
    }
}

/// Sends this many records of ten bytes before the handshake is done.
async fn send_early(
    running: &Running,
    config: Arc<ClientConfig>,
    records: usize,
) -> io::Result<String> {
    let address = running.address;
    let exchange = move || {
        let name = ServerName::try_from(NAME).unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        for _ in 0..records {
            let mut early = client.early_data().expect("the ticket allows it");
            early.write_all(b"0123456789").unwrap();
        }
        let mut socket = TcpStream::connect(address).unwrap();
        let mut stream = rustls::Stream::new(&mut client, &mut socket);
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        stream.write_all(request)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    spawn_blocking(exchange).await.unwrap()
}

/// Makes a client with an early-data ticket of another server of that name.
fn with_ticket(ca: &TestCa, pair: &Pair) -> ClientConfig {
    let mut config = client::config(ca);
    config.enable_early_data = true;
    config.resumption = rustls::client::Resumption::in_memory_sessions(16);
    let mut other = ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(pair.chain.clone(), pair.key_der())
    .unwrap();
    other.max_early_data_size = 1 << 14;
    other.session_storage = ServerSessionMemoryCache::new(16);
    let mut server = ServerConnection::new(Arc::new(other)).unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = ClientConnection::new(Arc::new(config.clone()), name).unwrap();
    for _ in 0..4 {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut there).unwrap();
        }
        server.read_tls(&mut &there[..]).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut back).unwrap();
        }
        client.read_tls(&mut &back[..]).unwrap();
        client.process_new_packets().unwrap();
    }
    config
}

/// Removes an extension from a ClientHello in one record (RFC 8446, section
/// 4.1.2).
fn without_extension(record: &[u8], kind: u16) -> Vec<u8> {
    let length = |at: usize| usize::from(u16::from_be_bytes([record[at], record[at + 1]]));
    // Lengths of the record head, message head, version and random.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(record[at]);
    at += 2 + length(at);
    at += 1 + usize::from(record[at]);
    let (head, mut rest) = (&record[5 + 4..at], &record[at + 2..]);
    let mut extensions = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let (extension, behind) = rest.split_at(4 + length);
        if u16::from_be_bytes([rest[0], rest[1]]) != kind {
            extensions.extend_from_slice(extension);
        }
        rest = behind;
    }
    let short = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let body = [head, &short(extensions.len()), &extensions].concat();
    let message = [&[1, 0][..], &short(body.len()), &body].concat();
    [&record[..3], &short(message.len()), &message].concat()
}

const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
/// The last message of the server's first flight with TLS 1.2.
const SERVER_HELLO_DONE: [u8; 4] = [14, 0, 0, 0];
const KEY_SHARE: u16 = 51;
