//! Tests slow signatures that all come from one client network.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use common::{LIMITS, Running, Scripted, Setup, host, start};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore};
use sekisho_server::Limits;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn one_network_leaves_signatures_to_others() {
    let (ca, running) = served();
    // Loads the record into the cache.
    client::connect(running.address, "rsa.example", client::config(ca))
        .await
        .unwrap();

    let hello = client_hello(ca);
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(&hello).await.unwrap();
        flood.push(socket);
    }
    let socket = TcpSocket::new_v4().unwrap();
    let elsewhere = Ipv4Addr::new(127, 1, 0, 1);
    socket.bind((elsewhere, 0).into()).unwrap();
    let served = async {
        let socket = socket.connect(running.address).await.unwrap();
        client::handshake(socket, "rsa.example", client::config(ca)).await
    };
    let served = timeout(Duration::from_secs(20), served).await;
    served.expect("served in time").expect("a handshake");

    // Many of the 300 earlier handshakes still wait for their signature.
    let answered = |socket: &&TcpStream| socket.try_read(&mut [0; 1]).is_ok();
    let before = flood.iter().filter(answered).count();
    assert!(before < FLOOD * 2 / 3, "{before} were served before");
    for socket in &flood {
        let answer = timeout(Duration::from_secs(20), socket.readable()).await;
        answer.expect("all have their turn").unwrap();
    }
}

#[tokio::test]
async fn a_retried_hello_is_answered() {
    let (ca, running) = served();
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups.insert(0, &Unknown);
    let mut roots = RootCertStore::empty();
    roots.add(ca.root()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = client::connect(running.address, "rsa.example", config)
        .await
        .unwrap();
    let kind = stream.get_ref().1.handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::FullWithHelloRetryRequest));
}

/// Starts one worker with a host that has a key of 4096 bits.
fn served() -> (&'static TestCa, Running) {
    // Making the key takes seconds: all tests share it.
    static PAIR: LazyLock<(TestCa, Pair)> = LazyLock::new(|| {
        let ca = TestCa::new();
        let pair = ca.issue(&["rsa.example"], Key::Rsa4096);
        (ca, pair)
    });
    let (ca, pair) = &*PAIR;
    let setup = Setup::limits(Limits {
        workers: 1,
        ..LIMITS
    });
    let hosts = [host("rsa.example", &[(pair, Key::Rsa4096)])];
    (ca, start(Scripted::new(hosts), &setup))
}

fn client_hello(ca: &TestCa) -> Vec<u8> {
    let name = ServerName::try_from("rsa.example").unwrap();
    let mut client = ClientConnection::new(Arc::new(client::config(ca)), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Key exchange group that no server knows: the server sends a
/// HelloRetryRequest.
#[derive(Debug)]
struct Unknown;

impl SupportedKxGroup for Unknown {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::Unknown(0xfe00)
    }
}

impl ActiveKeyExchange for Unknown {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, rustls::Error> {
        unreachable!("no server chooses it")
    }

    fn pub_key(&self) -> &[u8] {
        &[0; 32]
    }

    fn group(&self) -> NamedGroup {
        self.name()
    }
}

/// Handshakes that take more than half a second to sign.
const FLOOD: usize = 300;
