//! Upstreams that attack the server, or never answer it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::Result;
use rustls::ServerConfig;
use sekisho_testkit::{Key, TestCa};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, copy, sink, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::pool::{self, Pool};
use super::spoilt;
use crate::hosting::frames::{PING, SETTINGS, frame};

/// Behaviour of an upstream towards each connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hostile {
    /// Reads, and never says anything
    Silent,
    /// Does not even read
    Stuck,
    /// Answers each read with a megabyte
    Lavish,
    /// Answers each read with 100 MB that shrink to nothing, and are compressed
    Zeros,
    /// Answers with two letters in no order, which take long to compress at the highest level
    Letters,
    /// Sends PING for ever, over HTTP/2
    Ping,
    /// Sends SETTINGS for ever, over HTTP/2
    Settings,
    /// Sends tickets of TLS without end, behind the handshake
    Tickets,
    /// Answers in chunks of one byte
    Chunks,
    /// Fails as its requests ask for, or answers
    Spoilt,
    /// Speaks FastCGI, and attacks in this way
    Pool(Pool),
}

impl Hostile {
    /// Upstreams that send more than they should.
    pub(super) const FLOODS: [Self; 4] = [Self::Ping, Self::Settings, Self::Tickets, Self::Chunks];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Silent => "a silent upstream",
            Self::Stuck => "a stuck upstream",
            Self::Lavish => "a lavish upstream",
            Self::Zeros => "an upstream's zeros",
            Self::Letters => "an upstream's letters",
            Self::Ping => "an upstream's PING",
            Self::Settings => "an upstream's SETTINGS",
            Self::Tickets => "an upstream's tickets",
            Self::Chunks => "an upstream's tiny chunks",
            Self::Spoilt => "a spoilt backend",
            Self::Pool(pool) => pool.name(),
        }
    }
}

/// Upstream on a thread of its own: neighbours are measured on the main one.
pub(super) struct Attacking {
    /// Site whose requests it gets.
    pub(super) site: Value,
    pub(super) address: SocketAddr,
    /// Pages that a spoilt upstream has answered with.
    pages: Arc<AtomicU64>,
    /// Ends the thread when it is dropped.
    _end: oneshot::Sender<()>,
}

impl Attacking {
    /// Starts one; `root` is the folder of its scripts.
    pub(super) fn start(hostile: Hostile, root: &Path) -> Result<Self> {
        let listener = listen(hostile)?;
        let ca = TestCa::new();
        let address = listener.local_addr()?;
        let site = site(hostile, address, &ca, root)?;
        let tls = TlsAcceptor::from(Arc::new(tickets(&ca)?));
        let (end, ended) = oneshot::channel();
        let pages = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&pages);
        thread::Builder::new()
            .name("upstream".into())
            .spawn(move || {
                if hostile != Hostile::Spoilt {
                    let _ = rustix::process::nice(NICENESS);
                }
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let listener = TcpListener::from_std(listener)?;
                    tokio::select! {
                        _ = ended => Ok(()),
                        failed = accept(listener, hostile, tls, counted) => failed,
                    }
                })
            })?;
        Ok(Self {
            site,
            address,
            pages,
            _end: end,
        })
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }
}

fn listen(hostile: Hostile) -> Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if hostile == Hostile::Stuck {
        // The kernel holds little of what is not read.
        socket.set_recv_buffer_size(SMALL_BUFFER)?;
    }
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn site(hostile: Hostile, address: SocketAddr, ca: &TestCa, root: &Path) -> Result<Value> {
    Ok(match hostile {
        Hostile::Silent | Hostile::Stuck | Hostile::Lavish | Hostile::Chunks => {
            json!({ "upstream": format!("http://{address}") })
        }
        Hostile::Zeros => json!({
            "upstream": format!("http://{address}"), "compress": { "upstream": true },
        }),
        Hostile::Letters => json!({
            "upstream": format!("http://{address}"), "compress": { "upstream": true, "level": 9 },
        }),
        Hostile::Ping | Hostile::Settings => json!({ "upstream": format!("h2c://{address}") }),
        Hostile::Tickets => json!({ "upstream": {
            "servers": [format!("https://{address}")],
            "tls": { "name": NAME, "ca": ca.root_pem() },
        } }),
        Hostile::Spoilt => spoilt::site(address, ca),
        Hostile::Pool(pool) => pool.site(address, root)?,
    })
}

/// Makes the configuration of a server that sends thousands of tickets.
fn tickets(ca: &TestCa) -> Result<ServerConfig> {
    let pair = ca.issue(&[NAME], Key::P256);
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(pair.chain.clone(), pair.key_der())?;
    config.send_tls13_tickets = TICKETS;
    // About one ticket in each record.
    config.max_fragment_size = Some(128);
    Ok(config)
}

async fn accept(
    listener: TcpListener,
    hostile: Hostile,
    tls: TlsAcceptor,
    pages: Arc<AtomicU64>,
) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        let (tls, pages) = (tls.clone(), Arc::clone(&pages));
        // The server ends what attacks it.
        tokio::spawn(async move {
            let _ = match hostile {
                Hostile::Silent => read(socket).await,
                Hostile::Stuck => stay(socket).await,
                Hostile::Lavish => lavish(socket).await,
                Hostile::Zeros => zeros(socket).await,
                Hostile::Letters => letters(socket).await,
                Hostile::Ping => repeat(socket, frame(PING, 0, 0, &[7; 8])).await,
                Hostile::Settings => repeat(socket, frame(SETTINGS, 0, 0, &[])).await,
                Hostile::Tickets => read(tls.accept(socket).await?).await,
                Hostile::Chunks => chunks(socket).await,
                Hostile::Spoilt => spoilt::answer(socket, tls, &pages).await,
                Hostile::Pool(pool) => pool::answer(pool, socket).await,
            };
            io::Result::Ok(())
        });
    }
}

/// Reads until the end.
async fn read(mut from: impl tokio::io::AsyncRead + Unpin) -> io::Result<()> {
    copy(&mut from, &mut sink()).await.map(drop)
}

/// Keeps a connection until a reset ends it, also amid bytes that nobody reads.
pub(super) async fn stay(socket: TcpStream) -> io::Result<()> {
    while !socket.ready(Interest::ERROR).await?.is_error() {}
    Ok(())
}

/// Answers each read with a megabyte.
async fn lavish(mut socket: TcpStream) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n");
    let answer = [head.into_bytes(), vec![b'x'; MUCH]].concat();
    while socket.read(&mut [0; 4096]).await? > 0 {
        socket.write_all(&answer).await?;
    }
    Ok(())
}

/// Answers each read with 100 MB of zeros.
async fn zeros(mut socket: TcpStream) -> io::Result<()> {
    let length = ZEROS * MUCH;
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n");
    let piece = vec![0; MUCH];
    while socket.read(&mut [0; 4096]).await? > 0 {
        socket.write_all(head.as_bytes()).await?;
        for _ in 0..ZEROS {
            socket.write_all(&piece).await?;
        }
    }
    Ok(())
}

/// Answers each read with letters, in chunks of 4 KiB.
async fn letters(mut socket: TcpStream) -> io::Result<()> {
    let mut number = 1_u64;
    let letters = std::iter::repeat_with(|| {
        number = number * 48_271 % 0x7fff_ffff;
        b'a' + u8::from(number > 0x3fff_ffff)
    });
    let letters: Vec<u8> = letters.take(MUCH).collect();
    let chunk = |letters: &[u8]| [b"1000\r\n", letters, b"\r\n"].concat();
    let body: Vec<u8> = letters.chunks(0x1000).flat_map(chunk).collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    while socket.read(&mut [0; 4096]).await? > 0 {
        for part in [head.as_bytes(), &body, b"0\r\n\r\n"] {
            socket.write_all(part).await?;
        }
    }
    Ok(())
}

/// Begins HTTP/2, and repeats a frame until the end.
async fn repeat(socket: TcpStream, once: Vec<u8>) -> io::Result<()> {
    let (from, mut to) = split(socket);
    let many = once.repeat(AT_ONCE);
    let writing = async {
        to.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        loop {
            to.write_all(&many).await?;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = writing => ended,
        ended = read(from) => ended,
    }
}

/// Answers each read with a body in chunks of one byte.
async fn chunks(mut socket: TcpStream) -> io::Result<()> {
    let many = b"1\r\nx\r\n".repeat(AT_ONCE);
    let mut request = [0; 4096];
    while socket.read(&mut request).await? > 0 {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all(head).await?;
        for _ in 0..WRITES {
            socket.write_all(&many).await?;
            tokio::task::yield_now().await;
        }
        socket.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

/// Niceness: neighbours share the core. One of whom they ask has none.
const NICENESS: i32 = 19;
const NAME: &str = "up.test";
/// Twice as many as a server takes at once: to make them costs the attacker more.
const TICKETS: usize = 600;
/// Frames or chunks in one write.
const AT_ONCE: usize = 256;
/// Writes of an answer: 64 KiB of body.
const WRITES: usize = 256;
/// Bytes of an answer that comes at once.
const MUCH: usize = 1 << 20;
/// Times that of zeros.
const ZEROS: usize = 100;
const SMALL_BUFFER: usize = 4096;
/// Connections that wait to be accepted: more than there are attackers' requests.
const BACKLOG: i32 = 1024;
