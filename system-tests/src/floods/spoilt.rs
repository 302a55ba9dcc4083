//! Upstream that fails as the path of each request asks, and else answers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sekisho_testkit::TestCa;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::flood::attacker::Way;

/// Returns the site of the tenant that spoils its backend. What else its requests ask for
/// goes to the same address with the same settings as another tenant's.
pub(super) fn site(address: SocketAddr, ca: &TestCa) -> Value {
    let (plain, port) = (format!("http://{address}"), address.port());
    json!({
        "upstream": plain,
        "paths": [
            {
                "path": Way::Dead.path(),
                "upstream": { "servers": [plain, format!("http://{NOBODY}:{port}")] },
            },
            {
                "path": Way::Mistaken.path(),
                "upstream": {
                    "servers": [format!("https://{address}")],
                    "tls": { "name": "other.test", "ca": ca.root_pem() },
                },
            },
        ],
    })
}

/// Returns the site of another tenant: the same settings, and one more server. Its requests
/// go to both, half and half, unless one is ejected or busy for this tenant.
pub(super) fn other_site(address: SocketAddr, second: SocketAddr) -> Value {
    let servers = [address, second].map(|address| format!("http://{address}"));
    json!({ "upstream": { "servers": servers } })
}

/// Answers the requests of a connection, and counts its pages.
pub(super) async fn answer(
    mut socket: TcpStream,
    tls: TlsAcceptor,
    pages: &AtomicU64,
) -> io::Result<()> {
    let mut first = [0];
    if socket.peek(&mut first).await? > 0 && first[0] == TLS_HANDSHAKE {
        return tls.accept(socket).await.map(drop);
    }
    let mut head = Vec::new();
    loop {
        head.clear();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if socket.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let asks = |way: &&Way| {
            let path = head.split(|byte| *byte == b' ').nth(1);
            path == Some(way.path().as_bytes())
        };
        match Way::ALL.iter().find(asks) {
            None => {
                // Relaxed: read after the answer arrived, or a few too early.
                pages.fetch_add(1, Relaxed);
                socket.write_all(PAGE).await?;
            }
            Some(Way::Refused | Way::Dead | Way::Mistaken) => socket.write_all(REFUSAL).await?,
            Some(Way::Closed) => return Ok(()),
            Some(Way::Slow) => return drip(socket).await,
            Some(Way::Untaken) => return super::hostile::stay(socket).await,
        }
    }
}

/// Begins an answer, and goes on byte by byte.
async fn drip(mut socket: TcpStream) -> io::Result<()> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    socket.write_all(head).await?;
    loop {
        socket.write_all(b"x").await?;
        sleep(DRIP).await;
    }
}

/// First byte of a connection of TLS.
const TLS_HANDSHAKE: u8 = 22;
/// Address at whose ports nobody listens.
const NOBODY: &str = "127.0.0.2";
const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhere\n";
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
const DRIP: Duration = Duration::from_millis(200);
