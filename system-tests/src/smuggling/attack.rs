//! Sends cases, each with canaries behind it: requests that must get their own answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{sleep, timeout};

use super::case::{Case, PLAIN, Piece, Request, Stream, fill};
use crate::hosting::answers::{self, Answer};
use crate::hosting::frames::{
    ACK, DATA, END_STREAM, SETTINGS, Streams, block, frame, get, headers, preface, read,
};
use crate::hosting::{Client, Hosting};
use crate::server::Server;

/// Clients of both protocols.
pub(super) struct Attacker {
    one: Client,
    two: Client,
}

/// Attack on one host.
#[derive(Clone, Copy)]
pub(super) struct Attack<'a> {
    pub(super) case: &'a Case,
    pub(super) id: &'a str,
    pub(super) host: &'a str,
    pub(super) from: Ipv4Addr,
    /// Bytes in one write of HTTP/1.1.
    pub(super) cut: usize,
    /// How long to wait before the canary on another connection, with none on the same:
    /// an answer that comes unasked behind a request can't be told from its own.
    pub(super) alone: Option<Duration>,
}

/// Answers that the client got.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Of the case; none if the connection ended or nothing came.
    pub(super) case: Option<Answer>,
    /// Of the canary on the same connection.
    pub(super) same: Option<Answer>,
    /// Of the canary on another connection.
    pub(super) other: Option<Answer>,
}

impl Attacker {
    pub(super) fn new(hosting: &Hosting, server: &Server) -> Result<Self> {
        Ok(Self {
            one: hosting.client(server, "http/1.1")?,
            two: hosting.client(server, "h2")?,
        })
    }

    pub(super) async fn attack(&self, attack: Attack<'_>) -> Result<Told> {
        let (case, same) = match &attack.case.request {
            Request::Text(text) => self.text(attack, text).await?,
            Request::Stream(stream) => self.stream(attack, stream).await?,
        };
        if let Some(pause) = attack.alone {
            sleep(pause).await;
        }
        let other = self.canary(attack).await?;
        Ok(Told { case, same, other })
    }

    /// Sends a case of HTTP/1.1 and a canary behind it.
    async fn text(&self, attack: Attack<'_>, text: &str) -> Result<Pair> {
        let Attack { id, host, .. } = attack;
        let bytes = fill(text, id, host);
        let head = attack.case.method == "HEAD";
        let (mut from, mut to) = split(self.connect(attack).await?);
        let marker = match attack.alone {
            None => format!("GET /canary/{id}.same 0\n"),
            Some(_) => "\r\n\r\nok".to_owned(),
        };
        let writing = async {
            // A server that has refused the case takes no more.
            for piece in bytes.chunks(attack.cut) {
                send(&mut to, piece).await?;
            }
            let canary = format!("GET /canary/{id}.same HTTP/1.1\r\nHost: {host}\r\n\r\n");
            match attack.alone {
                None => send(&mut to, canary.as_bytes()).await,
                Some(_) => Ok(()),
            }
        };
        let mut received = Vec::new();
        let reading = read_until(&mut from, &mut received, marker.as_bytes());
        let both = async { tokio::join!(writing, reading) };
        // A request without its end gets no answer.
        let _ = timeout(PATIENCE, both).await;
        let mut answers = answers::parse(&received, &[head]).into_iter();
        Ok((answers.next(), answers.next()))
    }

    /// Sends a case of HTTP/2 as stream 1 and a canary as stream 3.
    async fn stream(&self, attack: Attack<'_>, stream: &Stream) -> Result<Pair> {
        let Attack { id, host, .. } = attack;
        let (mut from, mut to) = split(self.two.connect(attack.from, host).await?);
        let canary = match attack.alone {
            None => get(3, host, &format!("/canary/{id}.same")),
            Some(_) => Vec::new(),
        };
        let bytes = [
            preface(65_535),
            frame(SETTINGS, ACK, 0, &[]),
            frames(stream, id, host),
            canary,
        ]
        .concat();
        let mut streams = Streams::default();
        let exchange = async {
            send(&mut to, &bytes).await?;
            while !(streams.is_over(1) && (attack.alone.is_some() || streams.is_over(3))) {
                streams.note(&read(&mut from).await?);
            }
            anyhow::Ok(())
        };
        let _ = timeout(PATIENCE, exchange).await;
        Ok((streams.answer(1).cloned(), streams.answer(3).cloned()))
    }

    /// Asks a host with a pair of name and password.
    pub(super) async fn visit(&self, host: &str, pair: &str) -> Result<()> {
        let fields = format!("Authorization: Basic {pair}\r\n");
        let answer = self.ask(host, "/", &fields).await?;
        let status = answer.map(|answer| answer.status);
        ensure!(
            matches!(status, Some(200 | 404)),
            "a user was told {status:?}"
        );
        Ok(())
    }

    /// Asks a host for a path over HTTP/1.1. Each of the fields ends with CRLF.
    pub(super) async fn ask(&self, host: &str, path: &str, fields: &str) -> Result<Option<Answer>> {
        let mut stream = self.one.connect(VISITOR, host).await?;
        let fields = format!("Host: {host}\r\n{fields}Connection: close\r\n\r\n");
        let request = format!("GET {path} HTTP/1.1\r\n{fields}");
        send(&mut stream, request.as_bytes()).await?;
        let mut received = Vec::new();
        // Until the connection ends: no answer has this text.
        let reading = read_until(&mut stream, &mut received, b"\0no text of an answer\0");
        timeout(DEADLINE, reading).await?;
        Ok(answers::parse(&received, &[]).into_iter().next())
    }

    /// Connects for HTTP/1.1, without TLS to [`PLAIN`].
    async fn connect(&self, attack: Attack<'_>) -> Result<Box<dyn Socket>> {
        let socket: Box<dyn Socket> = match attack.host {
            PLAIN => Box::new(self.one.connect_plain(attack.from).await?),
            host => Box::new(self.one.connect(attack.from, host).await?),
        };
        Ok(socket)
    }

    /// Asks on another connection.
    async fn canary(&self, attack: Attack<'_>) -> Result<Option<Answer>> {
        let Attack { id, host, .. } = attack;
        let mut stream = self.connect(attack).await?;
        let request =
            format!("GET /canary/{id}.other HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        send(&mut stream, request.as_bytes()).await?;
        let mut received = Vec::new();
        let reading = read_until(&mut stream, &mut received, b"\0");
        // A canary that hangs has no answer.
        let _ = timeout(DEADLINE, reading).await;
        Ok(answers::parse(&received, &[]).into_iter().next())
    }
}

/// Connection of a client, with TLS or without.
trait Socket: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket for S {}

/// Answers of a case and of the canary behind it.
type Pair = (Option<Answer>, Option<Answer>);

async fn send<S: AsyncWrite + Unpin>(to: &mut S, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes).await?;
    Ok(to.flush().await?)
}

/// Reads until a text has come or the connection has ended.
async fn read_until<S: AsyncRead + Unpin>(from: &mut S, received: &mut Vec<u8>, text: &[u8]) {
    loop {
        if received.windows(text.len()).any(|part| part == text) {
            return;
        }
        if !matches!(from.read_buf(received).await, Ok(1..)) {
            return;
        }
    }
}

/// Encodes the frames of a case.
fn frames(stream: &Stream, id: &str, host: &str) -> Vec<u8> {
    let filled = |fields: &[(String, String)]| {
        let fields = fields.iter();
        let fields: Vec<_> = fields
            .map(|(name, value)| (fill(name, id, host), fill(value, id, host)))
            .collect();
        block(&fields)
    };
    let last = |left: usize| if left == 0 { END_STREAM } else { 0 };
    let mut left = stream.pieces.len();
    let mut bytes = headers(1, last(left), &filled(&stream.fields));
    for piece in &stream.pieces {
        left -= 1;
        bytes.extend(match piece {
            Piece::Data(data) => frame(DATA, last(left), 1, &fill(data, id, host)),
            Piece::Trailers(fields) => headers(1, last(left), &filled(fields)),
        });
    }
    bytes
}

/// Source address of a case: 250 of each /24 from 127.16.0.0 on.
pub(super) fn source(number: usize) -> Result<Ipv4Addr> {
    let [.., high, low] = u32::try_from(number / 250)?.to_be_bytes();
    ensure!(high < 200, "too many cases for loopback");
    Ok(Ipv4Addr::new(
        127,
        16 + high,
        low,
        u8::try_from(number % 250)? + 1,
    ))
}

/// Source address of users.
const VISITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// How long a case may be without its answers. What is refused, and what is whole, takes
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(600);
const DEADLINE: Duration = Duration::from_secs(10);
