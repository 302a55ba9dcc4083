//! Version 2 of the PROXY protocol towards upstreams of each kind.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_testkit::{Key, TestCa};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::common::{LIMITS, Setup};
use crate::http2::empty;
use crate::tls::{NAME, Secure, json};
use crate::world::{HOST, OK, Upstream, Wire, World, patiently, status};

/// Returns a site with this server, and further keys.
fn site(server: &str, more: &str) -> String {
    format!(r#"{{"upstream": {{"servers": ["{server}"], "proxy_protocol": "v2"{more}}}}}"#)
}

/// Starts a server that listens on this address.
fn listening(ip: IpAddr, site: &str) -> World {
    let mut setup = Setup::limits(LIMITS);
    setup.settings.https = vec![SocketAddr::from((ip, 0))];
    World::of_setup(setup, &[(HOST, site)])
}

/// Reads a header of version 2, and returns the addresses in it.
async fn addresses(stream: &mut (impl AsyncRead + Unpin)) -> (SocketAddr, SocketAddr) {
    let mut head = [0; 16];
    patiently(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(head[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    assert_eq!(head[12], 0x21, "version 2, PROXY");
    let mut rest = vec![0; usize::from(u16::from_be_bytes([head[14], head[15]]))];
    patiently(stream.read_exact(&mut rest)).await.unwrap();
    let ip = |bytes: &[u8]| match head[13] {
        0x11 => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
        0x21 => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
        other => panic!("family {other}"),
    };
    let size = if head[13] == 0x11 { 4 } else { 16 };
    assert_eq!(rest.len(), 2 * size + 4);
    let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    let from = SocketAddr::new(ip(&rest[..size]), port(2 * size));
    let to = SocketAddr::new(ip(&rest[size..2 * size]), port(2 * size + 2));
    (from, to)
}

/// Sends a request whose upstream serves it by `serve`, which returns the addresses
/// of the header. They are the client's and the server's.
async fn names_the_client(
    ip: IpAddr,
    site: &str,
    serve: impl Future<Output = (SocketAddr, SocketAddr)>,
) {
    let world = listening(ip, site);
    let mut client = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    client.send(request).await;
    let (head, addresses) = tokio::join!(client.head(), serve);
    assert_eq!(status(&head), 200, "{head}");
    let expected = (SocketAddr::new(ip, client.port()), world.running.address);
    assert_eq!(addresses, expected);
}

/// Reads the header, answers the request behind it, and returns the header's addresses.
async fn answered<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S) -> (SocketAddr, SocketAddr) {
    let addresses = addresses(&mut socket).await;
    let mut wire = Wire::new(socket);
    wire.head().await;
    wire.send(OK).await;
    addresses
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[tokio::test]
async fn plain_upstreams_learn_the_client() {
    for ip in [V4, V6] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = async {
            let (socket, _) = patiently(listener.accept()).await.unwrap();
            answered(socket).await
        };
        names_the_client(ip, &site(&url, ""), serve).await;
    }
}

#[tokio::test]
async fn a_text_header_names_ipv6() {
    let upstream = Upstream::bind().await;
    let site = site(&upstream.url(), "").replace("v2", "v1");
    let world = listening(V6, &site);
    let mut client = world.connect().await;
    client
        .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
        .await;
    let line = upstream.accept().await.until("\r\n").await;
    let (from, to) = (client.port(), world.running.address.port());
    assert_eq!(line, format!("PROXY TCP6 ::1 ::1 {from} {to}\r\n"));
}

/// The header stands before the ClientHello, in the clear.
#[tokio::test]
async fn upstreams_of_tls_learn_the_client() {
    let ca = TestCa::new();
    for ip in [V4, V6] {
        let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"http/1.1").await;
        let tls = format!(
            r#", "tls": {{"name": "{NAME}", "ca": {}}}"#,
            json(&ca.root_pem())
        );
        let site = site(&upstream.url(), &tls);
        let serve = async {
            let (mut socket, _) = patiently(upstream.listener.accept()).await.unwrap();
            let addresses = addresses(&mut socket).await;
            let acceptor = TlsAcceptor::from(upstream.config.clone());
            let mut wire = Wire::new(patiently(acceptor.accept(socket)).await.unwrap());
            wire.head().await;
            wire.send(OK).await;
            addresses
        };
        names_the_client(ip, &site, serve).await;
    }
}

#[tokio::test]
async fn upstreams_of_http2_learn_the_client() {
    for ip in [V4, V6] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("h2c://{}", listener.local_addr().unwrap());
        let serve = async {
            let (mut socket, _) = patiently(listener.accept()).await.unwrap();
            let addresses = addresses(&mut socket).await;
            let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(empty())));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(socket), service));
            addresses
        };
        names_the_client(ip, &site(&url, ""), serve).await;
    }
}

#[tokio::test]
async fn upstreams_at_unix_sockets_learn_the_client() {
    for ip in [V4, V6] {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let path = folder.path().join("app.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("unix:{}", path.display());
        let serve = async {
            let (socket, _) = patiently(listener.accept()).await.unwrap();
            answered(socket).await
        };
        names_the_client(ip, &site(&url, ""), serve).await;
    }
}
