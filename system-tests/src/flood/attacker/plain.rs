//! Names that a client makes up, asked for over plain HTTP.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Attacker;

impl Attacker {
    /// Asks for one new name below the host after the other, over one connection.
    pub(super) async fn plain_names(&self, mut socket: TcpStream) -> io::Result<()> {
        let mut answer = [0; 4096];
        loop {
            let number = self.shared.frames.fetch_add(1, Relaxed);
            let host = &self.target.host;
            let request = format!("GET / HTTP/1.1\r\nHost: n{number}.{host}\r\n\r\n");
            socket.write_all(request.as_bytes()).await?;
            // An answer is one segment.
            if socket.read(&mut answer).await? == 0 {
                return Ok(());
            }
        }
    }
}
