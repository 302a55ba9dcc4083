//! Client of the admin listener on a Unix socket.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Returns the answer to a GET, head and body.
pub(super) async fn ask(socket: &Path, path: &str) -> Result<String> {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        anyhow::Ok(text)
    };
    timeout(BOUND, asking)
        .await
        .context("the admin listener does not answer")?
}

const BOUND: Duration = Duration::from_secs(5);
