//! Raw HTTP/2 frames: writes and reads them.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PROTOCOL_ERROR: u8 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u8 = 3;
pub(crate) const ENHANCE_YOUR_CALM: u8 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Makes a frame (RFC 9113, section 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&len[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Makes the preface, with this initial window for each stream.
pub(crate) fn preface(window: u32) -> Vec<u8> {
    let window = [&[0, 4][..], &window.to_be_bytes()].concat();
    [PREFACE, &frame(SETTINGS, 0, 0, &window)].concat()
}

/// Encodes the fields of a GET (RFC 7541, appendix A), with one more if given.
pub(crate) fn fields(host: &str, path: &str, extra: Option<(&str, &str)>) -> Vec<u8> {
    let mut fields = vec![0x82, 0x87];
    for (index, value) in [(1, host), (4, path)] {
        fields.push(index);
        push(&mut fields, value);
    }
    if let Some((name, value)) = extra {
        fields.push(0);
        push(&mut fields, name);
        push(&mut fields, value);
    }
    fields
}

/// Makes a request without a body.
pub(crate) fn get(stream: u32, host: &str, path: &str) -> Vec<u8> {
    let fields = fields(host, path, None);
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)
}

fn push(fields: &mut Vec<u8>, text: &str) {
    fields.push(u8::try_from(text.len()).unwrap());
    fields.extend(text.as_bytes());
}

/// Frame that the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Returns whether the frame is GOAWAY with this code.
    pub(crate) fn is_goaway(&self, code: u8) -> bool {
        self.kind == GOAWAY && self.payload[4..8] == [0, 0, 0, code]
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

pub(crate) type Sender = WriteHalf<TlsStream<TcpStream>>;
pub(crate) type Receiver = ReadHalf<TlsStream<TcpStream>>;

/// Reads the server's next frame.
pub(crate) async fn read(receiver: &mut Receiver) -> io::Result<Frame> {
    let mut head = [0; 9];
    receiver.read_exact(&mut head).await?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(len).unwrap()];
    receiver.read_exact(&mut payload).await?;
    Ok(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
        payload,
    })
}

/// Reads all frames until the connection ends, within a time limit.
pub(crate) async fn read_all(receiver: &mut Receiver) -> Vec<Frame> {
    let mut frames = Vec::new();
    let reading = async {
        while let Ok(frame) = read(receiver).await {
            frames.push(frame);
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), reading).await;
    assert!(ended.is_ok(), "the connection is still open");
    frames
}

/// Sends `bytes` repeatedly, with pauses, until the connection ends.
pub(crate) async fn repeat(sender: &mut Sender, bytes: &[u8], pause: Duration) {
    let mut pause = tokio::time::interval(pause);
    loop {
        pause.tick().await;
        if sender.write_all(bytes).await.is_err() {
            return std::future::pending().await;
        }
    }
}
