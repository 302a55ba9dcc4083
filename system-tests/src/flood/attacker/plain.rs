//! Names that are not here, asked for over plain HTTP.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Attacker;

impl Attacker {
    /// Asks for one new name after the other, over one connection. Each is redirected.
    pub(super) async fn plain_names(&self, mut socket: TcpStream) -> io::Result<()> {
        let mut answer = [0; 4096];
        loop {
            let number = self.shared.frames.fetch_add(1, Relaxed);
            let request = format!("GET / HTTP/1.1\r\nHost: n{number}.nowhere.test\r\n\r\n");
            socket.write_all(request.as_bytes()).await?;
            // An answer is one segment.
            if socket.read(&mut answer).await? == 0 {
                return Ok(());
            }
        }
    }
}
