//! Upstreams of this process, each with an address and a port of its own.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Upstream that answers with its address, and the host and path that it was asked for.
pub(super) struct Own {
    pub(super) address: SocketAddr,
    accepting: AbortHandle,
}

impl Own {
    /// Listens at 127.64.0.1 and up.
    pub(super) async fn start(number: u32) -> Result<Self> {
        let [.., high, middle, low] = (number + 1).to_be_bytes();
        let address = Ipv4Addr::new(127, 64 + high, middle, low);
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // The client judges how a connection ends.
                tokio::spawn(async move { answer(socket, address).await.ok() });
            }
        });
        Ok(Self {
            address,
            accepting: accepting.abort_handle(),
        })
    }

    /// Returns what it answers.
    pub(super) fn text(&self, host: &str, path: &str) -> String {
        text(self.address, host, path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn text(address: SocketAddr, host: &str, path: &str) -> String {
    format!("{host} {path} at {address}\n")
}

async fn answer(mut socket: TcpStream, address: SocketAddr) -> Result<()> {
    let mut held = Vec::new();
    loop {
        while !held.ends_with(b"\r\n\r\n") {
            if socket.read_buf(&mut held).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&held).into_owned();
        held.clear();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let host = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        });
        let text = text(address, host.unwrap_or_default(), path);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        socket.write_all(answer.as_bytes()).await?;
    }
}
