//! Upstream that a test scripts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::world::patiently;

pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.unwrap())
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// Answers each request with the same bytes. Returns the requests' heads.
    pub(crate) fn answering(self, answer: &'static str) -> UnboundedReceiver<String> {
        let (heads, seen) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let mut socket = self.accept().await;
                let heads = heads.clone();
                tokio::spawn(async move {
                    while let Some(head) = head(&mut socket).await {
                        let _ = heads.send(head);
                        if socket.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        seen
    }

    /// Accepts a connection of the proxy.
    pub(crate) async fn accept(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }

    /// Returns whether no connection waits.
    pub(crate) fn is_alone(&self) -> bool {
        use futures_util::FutureExt as _;
        self.0.accept().now_or_never().is_none()
    }
}

/// Reads a head; None if the stream ends before it.
pub(crate) async fn head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return None,
        }
    }
    Some(String::from_utf8(head).unwrap())
}

/// Reads to the end, also if that is a reset.
pub(crate) async fn rest(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = patiently(socket.read_to_end(&mut bytes)).await;
    bytes
}

/// Answer with a body of two bytes.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
