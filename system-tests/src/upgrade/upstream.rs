//! Upstream on a thread of its own: takes uploads, and echoes over WebSocket.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

use super::content::Content;

/// Listens until this process ends; returns the address.
pub(super) fn start(content: Content) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let serving = move || runtime.block_on(accept(listener, content));
    let thread = thread::Builder::new().name("upstream".into());
    thread.spawn(serving).context("cannot start a thread")?;
    Ok(address)
}

async fn accept(listener: std::net::TcpListener, content: Content) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let content = content.clone();
        tokio::spawn(async move {
            // The client judges how a connection ends.
            let _ = answer(stream, &content).await;
        });
    }
}

async fn answer(mut stream: TcpStream, content: &Content) -> Result<()> {
    let mut held = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = held.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut held).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&held[..end]).into_owned();
        held.drain(..end);
        if head.starts_with("GET /echo ") {
            stream.write_all(SWITCHING).await?;
            stream.write_all(&held).await?;
            return echo(stream).await;
        }
        let text = take(&mut stream, &mut held, length(&head), content).await?;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Reads an upload and compares it; returns what to answer.
async fn take(
    stream: &mut TcpStream,
    held: &mut Vec<u8>,
    length: usize,
    content: &Content,
) -> Result<String> {
    let (mut taken, mut right) = (0, true);
    while taken < length {
        if held.is_empty() && stream.read_buf(held).await? == 0 {
            anyhow::bail!("an upload is cut");
        }
        let count = held.len().min(length - taken);
        right &= content.is_uploaded(taken, &held[..count]);
        held.drain(..count);
        taken += count;
    }
    Ok(match right {
        true => taken_text(length),
        false => "other bytes\n".to_owned(),
    })
}

async fn echo(mut stream: TcpStream) -> Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
    }
}

/// Returns the answer to an upload that came as it was sent.
pub(super) fn taken_text(length: usize) -> String {
    format!("took {length} bytes\n")
}

fn length(head: &str) -> usize {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let field = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    field
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or_default()
}

const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
