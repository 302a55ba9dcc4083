//! Server in front of a scripted upstream, and clients that write raw bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::HandshakeKind;
use sekisho_certs::{ClientCa, Site, Tenant};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::common::{LIMITS, Running, Scripted, Setup, host, start};

pub(crate) const HOST: &str = "a.example";

/// Longest wait of a test for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Running server whose hosts have sites of a test's choice.
pub(crate) struct World {
    pub(crate) ca: TestCa,
    pub(crate) running: Running,
}

impl World {
    /// Starts a server whose host has this site.
    pub(crate) fn new(site: &str) -> Self {
        Self::with(LIMITS, &[(HOST, site)])
    }

    /// Starts a server with these limits, and hosts with these sites.
    pub(crate) fn with(limits: Limits, sites: &[(&str, &str)]) -> Self {
        Self::of_ca(TestCa::new(), limits, sites)
    }

    /// Starts a server that asks this name server.
    pub(crate) fn resolving(at: SocketAddr, limits: Limits, sites: &[(&str, &str)]) -> Self {
        let mut setup = Setup::limits(limits);
        setup.settings.name_servers = vec![at];
        Self::of_setup(setup, sites)
    }

    /// Starts a server whose hosts have certificates of this CA.
    pub(crate) fn of_ca(ca: TestCa, limits: Limits, sites: &[(&str, &str)]) -> Self {
        Self::of(ca, None, Setup::limits(limits), sites)
    }

    /// Starts a server with these parameters.
    pub(crate) fn of_setup(setup: Setup, sites: &[(&str, &str)]) -> Self {
        Self::of(TestCa::new(), None, setup, sites)
    }

    /// Starts a server whose hosts demand client certificates of a CA, if any.
    pub(crate) fn demanding(clients: Option<Arc<ClientCa>>, sites: &[(&str, &str)]) -> Self {
        Self::of(TestCa::new(), clients, Setup::limits(LIMITS), sites)
    }

    fn of(
        ca: TestCa,
        clients: Option<Arc<ClientCa>>,
        setup: Setup,
        sites: &[(&str, &str)],
    ) -> Self {
        let sites: Vec<_> = sites
            .iter()
            .map(|(name, site)| (*name, "acme", *site))
            .collect();
        Self::of_tenants(ca, clients, setup, &sites)
    }

    /// Starts a server with one worker, and hosts of these tenants with these sites.
    pub(crate) fn shared(ca: TestCa, sites: &[(&str, &str, &str)]) -> Self {
        let limits = Limits {
            workers: 1,
            ..LIMITS
        };
        Self::of_tenants(ca, None, Setup::limits(limits), sites)
    }

    fn of_tenants(
        ca: TestCa,
        clients: Option<Arc<ClientCa>>,
        mut setup: Setup,
        sites: &[(&str, &str, &str)],
    ) -> Self {
        let names: Vec<&str> = sites.iter().map(|(name, ..)| *name).collect();
        let pair = ca.issue(&names, Key::P256);
        let records = sites.iter().map(|(name, tenant, site)| {
            let mut found = host(name, &[(&pair, Key::P256)]);
            found.record.tls.client_ca.clone_from(&clients);
            found.record.tenant = Tenant::parse(tenant).unwrap();
            found.record.site = Some(Site {
                format: 2,
                json: (*site).into(),
            });
            found
        });
        setup.allow = vec!["127.0.0.0/8".into(), "unix:/tmp".into()];
        let running = start(Scripted::new(records), &setup);
        Self { ca, running }
    }

    /// Connects over HTTP/1.1.
    pub(crate) async fn connect(&self) -> Wire<TlsStream<TcpStream>> {
        self.connect_to(HOST).await
    }

    /// Connects to a host over HTTP/1.1.
    pub(crate) async fn connect_to(&self, host: &str) -> Wire<TlsStream<TcpStream>> {
        let config = client::config(&self.ca);
        let stream = client::connect(self.running.address, host, config).await;
        Wire::new(stream.unwrap())
    }

    /// Sends one request to a host, and returns the status and body of its answer.
    pub(crate) async fn get(&self, host: &str) -> (u16, String) {
        let mut client = self.connect_to(host).await;
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        let (head, body) = client.answer().await;
        (status(&head), body)
    }

    /// Connects for frames of HTTP/2.
    pub(crate) async fn raw_http2(&self) -> Wire<TlsStream<TcpStream>> {
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::connect(self.running.address, HOST, config).await;
        Wire::new(stream.unwrap())
    }

    /// Connects over HTTP/2.
    pub(crate) async fn http2(&self) -> Http2 {
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::connect(self.running.address, HOST, config).await;
        speak_http2(stream.unwrap()).await
    }

    /// Sends one request over HTTP/1.1, and returns what the server answers
    /// before it closes.
    pub(crate) async fn exchange(&self, request: &str) -> String {
        let mut client = self.connect().await;
        client.send(request).await;
        String::from_utf8_lossy(&client.rest().await).into_owned()
    }
}

/// Client of one HTTP/2 connection.
pub(crate) type Http2 = http2::SendRequest<UnsyncBoxBody<Bytes, io::Error>>;

/// Begins HTTP/2 on a connection that has negotiated it.
pub(crate) async fn speak_http2(stream: TlsStream<TcpStream>) -> Http2 {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Upstream that a test scripts.
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.unwrap())
    }

    /// Takes a listener of the test.
    pub(crate) fn of(listener: TcpListener) -> Self {
        Self(listener)
    }

    /// Returns its address with port.
    pub(crate) fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Returns the document of a site that passes all requests on to it.
    pub(crate) fn site(&self) -> String {
        format!(r#"{{"upstream": "http://{}"}}"#, self.address())
    }

    /// Accepts a connection of the proxy.
    pub(crate) async fn accept(&self) -> Wire<TcpStream> {
        let (socket, _) = patiently(self.0.accept()).await.unwrap();
        Wire::new(socket)
    }

    /// Accepts a connection, whenever one comes.
    pub(crate) async fn accept_any(&self) -> Wire<TcpStream> {
        Wire::new(self.0.accept().await.unwrap().0)
    }

    /// Asserts that no connection waits.
    pub(crate) fn is_alone(&self) -> bool {
        use futures_util::FutureExt as _;
        self.0.accept().now_or_never().is_none()
    }

    /// Answers requests on one connection after another, each with the same
    /// bytes. Returns the request's heads.
    pub(crate) fn answering(
        self,
        answer: &'static str,
    ) -> tokio::sync::mpsc::UnboundedReceiver<String> {
        let (heads, seen) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (socket, _) = self.0.accept().await.unwrap();
                let heads = heads.clone();
                tokio::spawn(async move {
                    let mut wire = Wire::new(socket);
                    while let Some(head) = wire.next_head().await {
                        let _ = heads.send(head);
                        wire.send(answer).await;
                    }
                });
            }
        });
        seen
    }
}

/// Client's stream.
pub(crate) trait Socket {
    fn port(&self) -> u16;

    fn kind(&self) -> HandshakeKind;
}

impl Socket for TlsStream<TcpStream> {
    fn port(&self) -> u16 {
        self.get_ref().0.local_addr().unwrap().port()
    }

    fn kind(&self) -> HandshakeKind {
        self.get_ref().1.handshake_kind().unwrap()
    }
}

/// Byte stream with what was read ahead.
pub(crate) struct Wire<S> {
    stream: S,
    ahead: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Sends bytes; those that the other side does not take are its matter.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        let _ = patiently(sent).await;
    }

    /// Reads a head; None if the stream ends before it.
    pub(crate) async fn next_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.ahead.split_off(end + 4);
                let head = std::mem::replace(&mut self.ahead, rest);
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// Reads a head.
    pub(crate) async fn head(&mut self) -> String {
        patiently(self.next_head()).await.expect("a head")
    }

    /// Reads so many bytes.
    pub(crate) async fn exact(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            assert!(patiently(self.fill()).await, "an early end");
        }
        let rest = self.ahead.split_off(count);
        std::mem::replace(&mut self.ahead, rest)
    }

    /// Reads to a text, which is the end of what is returned.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self
                .ahead
                .windows(end.len())
                .position(|at| at == end.as_bytes());
            if let Some(at) = found {
                return String::from_utf8(self.exact(at + end.len()).await).unwrap();
            }
            assert!(patiently(self.fill()).await, "an early end");
        }
    }

    /// Reads a frame of HTTP/2, and returns its kind.
    pub(crate) async fn next_frame(&mut self) -> u8 {
        let head = self.exact(9).await;
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        self.exact(length).await;
        head[3]
    }

    /// Reads an answer with `Content-Length`.
    pub(crate) async fn answer(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let body = self.exact(length).await;
        (head, String::from_utf8(body).unwrap())
    }

    /// Reads to the end, also if that is a reset.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while patiently(self.fill()).await {}
        std::mem::take(&mut self.ahead)
    }

    /// Waits until the other side closes, and asserts that it sends nothing.
    pub(crate) async fn closed(&mut self) {
        let rest = self.rest().await;
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Returns the local port of a client's connection.
    pub(crate) fn port(&self) -> u16
    where
        S: Socket,
    {
        self.stream.port()
    }

    /// Returns how a client's connection began.
    pub(crate) fn kind(&self) -> HandshakeKind
    where
        S: Socket,
    {
        self.stream.kind()
    }

    pub(crate) async fn shutdown(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Returns false at the end.
    async fn fill(&mut self) -> bool {
        let mut bytes = [0; 16384];
        match self.stream.read(&mut bytes).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.ahead.extend_from_slice(&bytes[..count]);
                true
            }
        }
    }
}

/// Returns the value of a field in a head, all values of it joined.
pub(crate) fn field(head: &str, name: &str) -> Option<String> {
    let values: Vec<&str> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect();
    (!values.is_empty()).then(|| values.join("|"))
}

/// Returns the status of an answer.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}

/// Waits for `future`, within limits.
pub(crate) async fn patiently<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Answer with a body of two bytes.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
