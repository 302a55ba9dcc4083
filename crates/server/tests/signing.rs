//! Tests slow signatures that all come from one client network.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use common::{LIMITS, Running, Scripted, Setup, host, start};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup, aws_lc_rs,
};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, SignatureAlgorithm,
    SupportedCipherSuite, SupportedProtocolVersion,
};
use sekisho_server::Limits;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn one_network_leaves_signatures_to_others() {
    let (ca, running) = served(&[Key::Rsa4096]);
    let mut client = new_client(client::config(ca));
    let hello = written(&mut client);
    leaves_signatures_to_others(&running, flood(&running, &hello).await).await;
}

/// A suite of TLS 1.2 says which key signs, whatever the client's first scheme is.
#[tokio::test]
async fn a_suite_that_leads_to_the_slow_key_takes_turns() {
    let (ca, running) = served(&[Key::P256, Key::Rsa4096]);
    let mut provider = aws_lc_rs::default_provider();
    let by_rsa = |suite: &SupportedCipherSuite| {
        suite.tls13().is_none() && suite.usable_for_signature_algorithm(SignatureAlgorithm::RSA)
    };
    provider.cipher_suites.retain(by_rsa);
    let mut client = new_client(config(ca, provider, &TLS12));
    let hello = written(&mut client);
    leaves_signatures_to_others(&running, flood(&running, &hello).await).await;
}

/// The second hello may offer a scheme that the first did not.
#[tokio::test]
async fn a_retried_hello_that_offers_the_slow_key_takes_turns() {
    let (ca, running) = served(&[Key::Rsa4096]);
    let mut retried = Vec::new();
    for _ in 0..FLOOD {
        let mut client = new_client(config(ca, with_unknown_group(), &TLS13));
        let hello = with_ed25519_alone(written(&mut client));
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(&hello).await.unwrap();
        // HelloRetryRequest.
        while !client.wants_write() {
            let mut bytes = [0; 1024];
            let read = socket.read(&mut bytes).await.unwrap();
            client.read_tls(&mut &bytes[..read]).unwrap();
            client.process_new_packets().unwrap();
        }
        // change_cipher_spec may come on its own.
        let mut rest = [0; 64];
        while socket.try_read(&mut rest).is_ok_and(|read| read > 0) {}
        retried.push((socket, written(&mut client)));
    }
    let mut flood = Vec::new();
    for (mut socket, hello) in retried {
        socket.write_all(&hello).await.unwrap();
        flood.push(socket);
    }
    leaves_signatures_to_others(&running, flood).await;
}

/// Sends a ClientHello over many connections of one network.
async fn flood(running: &Running, hello: &[u8]) -> Vec<TcpStream> {
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(hello).await.unwrap();
        flood.push(socket);
    }
    flood
}

/// Serves another network while many handshakes of one wait for a signature.
async fn leaves_signatures_to_others(running: &Running, flood: Vec<TcpStream>) {
    let (ca, _) = &*PAIRS;
    let socket = TcpSocket::new_v4().unwrap();
    let elsewhere = Ipv4Addr::new(127, 1, 0, 1);
    socket.bind((elsewhere, 0).into()).unwrap();
    let rsa = config(ca, aws_lc_rs::default_provider(), &TLS13);
    let served = async {
        let socket = socket.connect(running.address).await.unwrap();
        client::handshake(socket, "rsa.example", rsa).await
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
    let (ca, running) = served(&[Key::Rsa4096]);
    let config = config(ca, with_unknown_group(), &TLS13);
    let stream = client::connect(running.address, "rsa.example", config)
        .await
        .unwrap();
    let kind = stream.get_ref().1.handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::FullWithHelloRetryRequest));
}

/// Making the RSA key takes seconds: all tests share it.
static PAIRS: LazyLock<(TestCa, [Pair; 2])> = LazyLock::new(|| {
    let ca = TestCa::new();
    let pairs = [Key::P256, Key::Rsa4096].map(|key| ca.issue(&["rsa.example"], key));
    (ca, pairs)
});

/// Starts one worker with a host that has such keys; the RSA key has 4096 bits.
fn served(keys: &[Key]) -> (&'static TestCa, Running) {
    let (ca, [p256, rsa]) = &*PAIRS;
    let pair = |key| match key {
        Key::P256 => (p256, key),
        _ => (rsa, key),
    };
    let pairs: Vec<_> = keys.iter().copied().map(pair).collect();
    let setup = Setup::limits(Limits {
        workers: 1,
        ..LIMITS
    });
    let hosts = [host("rsa.example", &pairs)];
    (ca, start(Scripted::new(hosts), &setup))
}

fn config(
    ca: &TestCa,
    provider: CryptoProvider,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(ca.root()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Makes a provider whose key share no server takes.
fn with_unknown_group() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups.insert(0, &Unknown);
    provider
}

fn new_client(config: ClientConfig) -> ClientConnection {
    let name = ServerName::try_from("rsa.example").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn written(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Replaces all signature schemes of a ClientHello by `ed25519` (RFC 8446, section 4.2.3).
fn with_ed25519_alone(mut hello: Vec<u8>) -> Vec<u8> {
    let is_list = |at: usize| {
        let [0, 13, 0, extension, 0, list] = hello[at..at + 6] else {
            return false;
        };
        extension == list + 2 && list % 2 == 0
    };
    let at = (0..hello.len() - 6).find(|at| is_list(*at)).unwrap();
    let length = usize::from(hello[at + 5]);
    for scheme in hello[at + 6..at + 6 + length].chunks_mut(2) {
        scheme.copy_from_slice(&[8, 7]);
    }
    hello
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
