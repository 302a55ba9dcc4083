//! Upstream that a test scripts, and byte streams of both sides.

use std::io;
use std::time::Duration;

use rustls::HandshakeKind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Longest wait of a test for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Upstream that a test scripts.
pub struct Upstream(TcpListener);

impl Upstream {
    pub async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.unwrap())
    }

    /// Takes a listener of the test.
    pub fn of(listener: TcpListener) -> Self {
        Self(listener)
    }

    /// Returns its address with port.
    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns the document of a site that passes all requests on to it.
    pub fn site(&self) -> String {
        format!(r#"{{"upstream": "{}"}}"#, self.url())
    }

    /// Accepts a connection of the proxy.
    pub async fn accept(&self) -> Wire<TcpStream> {
        let (socket, _) = patiently(self.0.accept()).await.unwrap();
        Wire::new(socket)
    }

    /// Accepts a connection, whenever one comes.
    pub async fn accept_any(&self) -> Wire<TcpStream> {
        Wire::new(self.0.accept().await.unwrap().0)
    }

    /// Returns whether no connection waits.
    pub fn is_alone(&self) -> bool {
        use futures_util::FutureExt as _;
        self.0.accept().now_or_never().is_none()
    }

    /// Answers requests on one connection after another, each with the same
    /// bytes. Returns the request's heads.
    pub fn answering(self, answer: &'static str) -> tokio::sync::mpsc::UnboundedReceiver<String> {
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
pub trait Socket {
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
pub struct Wire<S> {
    stream: S,
    ahead: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Sends bytes; those that the other side does not take are its matter.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        let _ = patiently(sent).await;
    }

    /// Reads a head; None if the stream ends before it.
    pub async fn next_head(&mut self) -> Option<String> {
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
    pub async fn head(&mut self) -> String {
        patiently(self.next_head()).await.expect("a head")
    }

    /// Reads so many bytes.
    pub async fn exact(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            assert!(patiently(self.fill()).await, "an early end");
        }
        let rest = self.ahead.split_off(count);
        std::mem::replace(&mut self.ahead, rest)
    }

    /// Reads to a text, which is the end of what is returned.
    pub async fn until(&mut self, end: &str) -> String {
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
    pub async fn next_frame(&mut self) -> u8 {
        let head = self.exact(9).await;
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        self.exact(length).await;
        head[3]
    }

    /// Reads an answer with `Content-Length`.
    pub async fn answer(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let body = self.exact(length).await;
        (head, String::from_utf8(body).unwrap())
    }

    /// Reads to the end, also if that is a reset.
    pub async fn rest(&mut self) -> Vec<u8> {
        while patiently(self.fill()).await {}
        std::mem::take(&mut self.ahead)
    }

    /// Waits until the other side closes, and asserts that it sends nothing.
    pub async fn closed(&mut self) {
        let rest = self.rest().await;
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Returns the local port of a client's connection.
    pub fn port(&self) -> u16
    where
        S: Socket,
    {
        self.stream.port()
    }

    /// Returns how a client's connection began.
    pub fn kind(&self) -> HandshakeKind
    where
        S: Socket,
    {
        self.stream.kind()
    }

    pub async fn shutdown(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Returns the error that the connection ends with; None if it is closed in order.
    pub async fn end(&mut self) -> Option<io::ErrorKind> {
        let mut bytes = [0; 16384];
        loop {
            match self.stream.read(&mut bytes).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.kind()),
            }
        }
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
pub fn field(head: &str, name: &str) -> Option<String> {
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
pub fn status(head: &str) -> u16 {
    head.split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}

/// Waits for `future`, within limits.
pub async fn patiently<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Answer with a body of two bytes.
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
