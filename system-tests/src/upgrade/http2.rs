//! HTTP/2 connections, each with many requests at a time.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::content::Content;
use super::field::{Field, Kind, Note};
use super::http1::Reading;
use super::transfers::{UPLOAD_PAUSE, UPLOAD_PIECES};
use super::upstream::taken_text;

type Outgoing = UnsyncBoxBody<Bytes, Infallible>;
type Sender = SendRequest<Outgoing>;

/// Connections that requests use in turn.
pub(super) struct Multiplexed {
    field: Rc<Field>,
    kind: Kind,
    client: Client,
    host: &'static str,
    slots: Vec<Mutex<Option<Sender>>>,
    turn: Cell<usize>,
}

impl Multiplexed {
    pub(super) fn new(
        field: &Rc<Field>,
        kind: Kind,
        client: Client,
        host: &'static str,
        connections: usize,
    ) -> Self {
        Self {
            field: field.clone(),
            kind,
            client: client.http2(),
            host,
            slots: (0..connections).map(|_| Mutex::default()).collect(),
            turn: Cell::new(0),
        }
    }

    /// Sends a GET, whose answer must be these bytes.
    pub(super) async fn request(
        &self,
        path: &str,
        expected: &[u8],
        reading: Reading,
    ) -> Result<(), Failure> {
        let request = || {
            let request = Request::get(format!("https://{}{path}", self.host));
            request.body(Empty::new().boxed_unsync())
        };
        self.exchange(request, expected, reading).await
    }

    /// Sends a body piece by piece to the upstream, which says whether it came.
    pub(super) async fn upload(&self, content: &Content) -> Result<(), Failure> {
        let length = content.upload().len();
        let request = || {
            let request = Request::post(format!("https://{}/upload", self.host));
            let request = request.header(CONTENT_LENGTH, length);
            request.body(pieces(content.clone()))
        };
        let expected = taken_text(length);
        self.exchange(request, expected.as_bytes(), Reading::FAST)
            .await
    }

    /// Sends a request and compares the answer.
    ///
    /// A request that was not sent, or that the server has not begun as its GOAWAY says, is
    /// sent on a new connection (RFC 9113, section 6.8). All others must be answered.
    async fn exchange(
        &self,
        request: impl Fn() -> http::Result<Request<Outgoing>>,
        expected: &[u8],
        reading: Reading,
    ) -> Result<(), Failure> {
        let slot = self.turn.get();
        self.turn.set((slot + 1) % self.slots.len());
        for _ in 0..ATTEMPTS {
            let mut sender = self.connection(slot).await?;
            let request = request().map_err(|_| Failure::Name)?;
            match sender.try_send_request(request).await {
                Ok(answer) if answer.status() == StatusCode::OK => {
                    return read(answer.into_body(), expected, reading).await;
                }
                Ok(answer) => return Err(Failure::Status(answer.status().as_u16())),
                Err(mut error) => match error.take_message() {
                    Some(_unsent) => self.replace(slot, Note::Unsent).await,
                    None if is_undone(error.error()) => self.replace(slot, Note::Undone).await,
                    None => return Err(failure(&error.into_error())),
                },
            }
        }
        Err(Failure::Response("no connection takes the request"))
    }

    /// Returns the connection of a slot, a new one if the server has ended that before.
    async fn connection(&self, slot: usize) -> Result<Sender, Failure> {
        let mut held = self.slots[slot].lock().await;
        if let Some(sender) = held.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        if held.take().is_some() {
            self.field.note(Note::GoAway);
        }
        let stream = self.client.open(self.host).await?;
        let handshake = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| failure(&error))?;
        let (field, kind) = (self.field.clone(), self.kind);
        spawn_local(async move {
            // Its requests may all have been answered: a reset is a failure all the same.
            if let Err(error) = connection.await {
                field.failed(kind, &failure(&error));
            }
        });
        *held = Some(sender.clone());
        Ok(sender)
    }

    async fn replace(&self, slot: usize, why: Note) {
        self.field.note(why);
        let mut held = self.slots[slot].lock().await;
        // Another request may have replaced the connection meanwhile.
        held.take_if(|sender| !sender.is_ready());
    }
}

/// Makes the body of an upload.
fn pieces(content: Content) -> Outgoing {
    let length = content.upload().len();
    let pieces = stream::unfold(0, move |at| {
        let piece = content.upload().get(at..at + length / UPLOAD_PIECES);
        let piece = piece.map(Bytes::copy_from_slice);
        async move {
            let piece = piece.filter(|piece| !piece.is_empty())?;
            sleep(UPLOAD_PAUSE).await;
            let next = at + piece.len();
            Some((Ok(Frame::data(piece)), next))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

async fn read(mut body: Incoming, expected: &[u8], reading: Reading) -> Result<(), Failure> {
    let (mut rest, mut unpaused) = (expected, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure(&error))?;
        let data = frame.into_data().unwrap_or_default();
        rest = rest
            .strip_prefix(data.as_ref())
            .ok_or(Failure::Response("other bytes than those of the file"))?;
        unpaused += data.len();
        if unpaused >= reading.piece && !reading.pause.is_zero() {
            unpaused = 0;
            sleep(reading.pause).await;
        }
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Failure::Response("closed before the answer was complete")),
    }
}

/// Tells whether a GOAWAY without an error says that the server has done nothing for this
/// request: it was queued here when the GOAWAY came.
fn is_undone(error: &hyper::Error) -> bool {
    let error = error.source().and_then(|source| source.downcast_ref());
    error.is_some_and(|error: &h2::Error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    })
}

/// Words a failure with its causes.
fn failure(error: &hyper::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    Failure::Exchange(std::io::Error::other(text))
}

const ATTEMPTS: usize = 4;
