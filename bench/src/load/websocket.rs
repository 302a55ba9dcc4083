//! WebSocket client (RFC 6455), just enough to send a message and read its echo.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;

/// Upgrades the connection. The key is constant: nothing here checks the answer's.
pub(crate) async fn open(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    host: &str,
) -> Result<(), Failure> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    write(stream, request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // Byte by byte: what follows the head belongs to the WebSocket.
        head.push(stream.read_u8().await.map_err(Failure::Exchange)?);
        if head.len() > HEAD_LIMIT {
            return Err(Failure::Response("head too long"));
        }
    }
    if head.starts_with(b"HTTP/1.1 101 ") {
        Ok(())
    } else {
        Err(Failure::Response("no upgrade to a WebSocket"))
    }
}

/// Sends a message of 64 bytes, and reads as many: the server sends the frame back
/// as it came.
pub(crate) async fn echo(stream: &mut TlsStream<TcpStream>) -> Result<(), Failure> {
    write(stream, &FRAME).await?;
    let mut read = [0; FRAME.len()];
    let got = stream.read_exact(&mut read).await;
    got.map_err(Failure::Exchange)?;
    if read == FRAME {
        Ok(())
    } else {
        Err(Failure::Response("another message than the one sent"))
    }
}

async fn write(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) -> Result<(), Failure> {
    stream.write_all(bytes).await.map_err(Failure::Exchange)?;
    stream.flush().await.map_err(Failure::Exchange)
}

/// Binary frame, masked with zeros: two bytes, a mask of four, a payload of 64.
const FRAME: [u8; 70] = {
    let mut frame = [b'x'; 70];
    frame[0] = 0x82;
    frame[1] = 0x80 | 64;
    let mut at = 2;
    while at < 6 {
        frame[at] = 0;
        at += 1;
    }
    frame
};

const HEAD_LIMIT: usize = 16 * 1024;
