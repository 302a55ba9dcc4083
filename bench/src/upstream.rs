//! Upstream of a proxy: answers on many loopback addresses of one port, with a page,
//! a large file, an echo and certificates.

mod certificates;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::JoinSet;

use crate::compare::codings::{LENGTH, text};

/// Where to listen.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Port, on each address
    #[arg(long, value_name = "PORT")]
    port: u16,

    /// Number of addresses: 127.9.0.1 and up
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,

    /// Folder of `fixtures`: gives out chain and key of a host for /?server_name=NAME, and no
    /// page
    #[arg(long, value_name = "DIR")]
    fixture: Option<PathBuf>,
}

/// Listens until it is ended. Prints "ready" once all addresses accept.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let fixture = options.fixture.clone().map(Arc::new);
    runtime.block_on(async {
        let mut accepting = JoinSet::new();
        for number in 0..options.count {
            let address = address(number, options.port);
            let listener = TcpListener::bind(address).await;
            let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
            accepting.spawn(accept(listener, fixture.clone()));
        }
        println!("{READY}");
        while let Some(ended) = accepting.join_next().await {
            ended??;
        }
        Ok(())
    })
}

/// Returns the address of an upstream by its number.
pub(crate) fn address(number: usize, port: u16) -> SocketAddr {
    let (high, low) = (number / 250 % 256, number % 250 + 1);
    let ip = Ipv4Addr::new(127, 9, high as u8, low as u8);
    SocketAddrV4::new(ip, port).into()
}

async fn accept(listener: TcpListener, fixture: Option<Arc<PathBuf>>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let fixture = fixture.clone();
        tokio::spawn(async move {
            // A connection that fails is the proxy's to report.
            let _ = answer(stream, fixture).await;
        });
    }
}

/// Answers the requests of a connection, which have no body.
async fn answer(mut stream: TcpStream, fixture: Option<Arc<PathBuf>>) -> Result<()> {
    let (page, mut html, mut head) = (page(), None, Vec::with_capacity(HEAD_LIMIT));
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > HEAD_LIMIT || stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        if head.starts_with(b"GET /ws ") {
            stream.write_all(SWITCHING).await?;
            return echo(stream).await;
        } else if head.starts_with(b"GET /large.bin ") {
            send_large(&mut stream).await?;
        } else if head.starts_with(b"GET /compressed.html ") {
            stream.write_all(html.get_or_insert_with(text_page)).await?;
        } else if let Some(fixture) = fixture.as_deref() {
            let pair = certificates::answer(fixture, &head);
            stream.write_all(&pair).await?;
        } else {
            stream.write_all(&page).await?;
        }
    }
}

async fn send_large(stream: &mut TcpStream) -> Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b'x'; PIECE];
    for _ in 0..LARGE / PIECE {
        stream.write_all(&piece).await?;
    }
    Ok(())
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

/// Returns a head and the text that servers compress.
fn text_page() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length";
    format!("{head}: {LENGTH}\r\n\r\n{}", text(LENGTH)).into_bytes()
}

/// Returns a head and a page of 612 bytes, the size of nginx's own welcome page.
fn page() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 612\r\n\r\n";
    let mut page = head.as_bytes().to_vec();
    page.resize(head.len() + 612, b'x');
    page
}

/// Bytes of `/large.bin`: 100 MB in whole pieces.
pub(crate) const LARGE: usize = 1_600 * PIECE;
const PIECE: usize = 64 << 10;
const HEAD_LIMIT: usize = 16 << 10;
const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
/// Line that says that all addresses accept.
pub(crate) const READY: &str = "ready";

/// Examples below `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  100 upstreams, http://127.9.0.1:9000 to http://127.9.0.100:9000:
    sekisho-bench upstream --port 9000
  An endpoint for `get_certificate http http://127.9.0.1:9000/` of Caddy:
    sekisho-bench upstream --port 9000 --count 1 --fixture fixtures/ecdsa
";
