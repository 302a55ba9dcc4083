//! FastCGI connection, which serves one request at a time.
//!
//! The request's task drives it, and later the body of the answer: there is no task of its
//! own. Both directions move at once, since a script may answer before it has read all.

pub(in crate::upstream) mod complaints;
pub(in crate::upstream) mod head;
pub(in crate::upstream) mod record;

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::Response;
use http_body::Body as _;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use super::transport::Transport;
use crate::upstream::failure::Failure;
use crate::upstream::request::upload::Upload;
use crate::upstream::servers::kept::KeptOne;
use complaints::Complaints;
use head::Head;
use record::{Parser, Piece};

/// Connection to a FastCGI server.
pub(in crate::upstream) struct FastCgi {
    transport: Transport,
    /// Bytes to send.
    out: BytesMut,
    /// Body of the request; none once it is sent whole, or if the server takes no more.
    upload: Option<Upload>,
    received: BytesMut,
    parser: Parser,
    /// Output that came with the head.
    ahead: Bytes,
    /// None while no request uses the connection.
    complaints: Option<Complaints>,
    /// A byte of the current answer has come.
    is_answered: bool,
    /// The current request has ended in order.
    has_ended: bool,
    /// Served a request before.
    pub(in crate::upstream) reused: bool,
    /// Place among the unused connections that are kept; none while it is used.
    kept: Option<KeptOne>,
}

/// Error of a conversation.
type Broken = Box<dyn Error + Send + Sync>;

impl FastCgi {
    pub(in crate::upstream) fn new(transport: Transport) -> Self {
        Self {
            transport,
            out: BytesMut::new(),
            upload: None,
            received: BytesMut::new(),
            parser: Parser::default(),
            ahead: Bytes::new(),
            complaints: None,
            is_answered: false,
            has_ended: false,
            reused: false,
            kept: None,
        }
    }

    /// Sends a request, and awaits the head of its answer. `params` are encoded by
    /// [`record::pair`]; with `keep`, the connection is to stay open.
    ///
    /// # Errors
    /// If the connection ends, or what comes is no answer.
    pub(in crate::upstream) async fn ask(
        &mut self,
        params: &[u8],
        upload: Upload,
        keep: bool,
        complaints: Complaints,
    ) -> Result<Response<()>, Broken> {
        let mut out = Vec::with_capacity(params.len() + HEADS);
        record::begin(&mut out, keep);
        record::params(&mut out, params);
        match upload.is_end_stream() {
            true => record::input(&mut out, b""),
            false => self.upload = Some(upload),
        }
        self.out = BytesMut::from(Bytes::from(out));
        self.parser = Parser::default();
        (self.is_answered, self.has_ended) = (false, false);
        self.complaints = Some(complaints);
        let mut head = Head::default();
        poll_fn(|cx| self.poll_head(cx, &mut head)).await
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Head,
    ) -> Poll<Result<Response<()>, Broken>> {
        loop {
            let output = ready!(self.poll_output(cx))?;
            let output = output.ok_or("it ended without a head")?;
            if let Some((response, rest)) = head.add(&output)? {
                self.ahead = rest;
                return Poll::Ready(Ok(response));
            }
        }
    }

    /// Returns the next piece of the answer's body; none at its end.
    ///
    /// # Errors
    /// If the connection ends before the answer, or breaks the protocol.
    pub(in crate::upstream) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.ahead))));
        }
        self.poll_output(cx)
    }

    /// Moves both directions until there is output; none once the request has ended.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        if self.has_ended {
            return Poll::Ready(Ok(None));
        }
        self.send(cx)?;
        loop {
            match self.parser.next(&mut self.received)? {
                Some(Piece::Output(output)) => return Poll::Ready(Ok(Some(output))),
                Some(Piece::Error(text)) if self.complain(&text) => {}
                Some(Piece::Error(_)) => {
                    return Poll::Ready(Err("it wrote over 1 MiB to standard error".into()));
                }
                Some(Piece::End(record::REQUEST_COMPLETE)) => {
                    self.has_ended = true;
                    return Poll::Ready(Ok(None));
                }
                Some(Piece::End(record::CANT_MPX_CONN | record::OVERLOADED)) => {
                    return Poll::Ready(Err(Failure::Overloaded.into()));
                }
                Some(Piece::End(_)) => {
                    return Poll::Ready(Err("the server did not take the request".into()));
                }
                None => ready!(self.poll_receive(cx))?,
            }
        }
    }

    /// Notes what came of standard error. Returns false once that is too much.
    fn complain(&mut self, text: &[u8]) -> bool {
        let complaints = self.complaints.as_mut();
        complaints.is_none_or(|complaints| complaints.add(text))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.received.reserve(PIECE);
        let read = pin!(self.transport.read_buf(&mut self.received)).poll(cx);
        match ready!(read) {
            Ok(0) => Poll::Ready(Err("the connection ended before the answer".into())),
            Ok(_) => {
                self.is_answered = true;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Sends as much as the server takes. A server that takes no more may have answered all
    /// the same.
    ///
    /// # Errors
    /// Those of the request's body.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        loop {
            while !self.out.is_empty() {
                match Pin::new(&mut self.transport).poll_write(cx, &self.out) {
                    Poll::Ready(Ok(written)) if written > 0 => self.out.advance(written),
                    Poll::Ready(_) => {
                        self.out.clear();
                        self.upload = None;
                        return Ok(());
                    }
                    Poll::Pending => return Ok(()),
                }
            }
            let Some(upload) = &mut self.upload else {
                return Ok(());
            };
            let mut out = Vec::new();
            match Pin::new(upload).poll_frame(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers have no place in CGI.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        out.reserve(data.len() + HEADS);
                        record::input(&mut out, &data);
                    }
                }
                Poll::Ready(None) => {
                    record::input(&mut out, b"");
                    self.upload = None;
                }
            }
            self.out = BytesMut::from(Bytes::from(out));
        }
    }

    /// Returns whether the connection ended without a byte of the answer.
    pub(in crate::upstream) fn is_unanswered(&self) -> bool {
        !self.is_answered
    }

    /// Returns whether another request may use the connection: the last one ended in order,
    /// and the server has neither closed it nor sent more.
    pub(in crate::upstream) fn is_ready(&mut self) -> bool {
        let is_at_end = self.has_ended && self.out.is_empty() && self.upload.is_none();
        at_rest(&mut self.transport) && is_at_end && self.received.is_empty()
    }

    /// Ends a request. The connection is among those that are kept, until it is used.
    pub(in crate::upstream) fn rest(&mut self, kept: KeptOne) {
        self.reused = true;
        self.kept = Some(kept);
        // The log gets what the script wrote.
        self.complaints = None;
    }

    /// Takes the connection out of those that are kept.
    pub(in crate::upstream) fn wake(&mut self) {
        self.kept = None;
    }
}

impl std::fmt::Debug for FastCgi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastCgi").finish_non_exhaustive()
    }
}

/// Returns whether nothing has come from a server, and the connection is open.
fn at_rest(transport: &mut Transport) -> bool {
    let mut byte = [0];
    let read = pin!(transport.read(&mut byte));
    read.poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

/// Reads an answer whose bytes come in pieces of so many, for the fuzz target. Returns the
/// status and the fields of its head with the body and standard error, or what is wrong.
#[cfg(fuzzing)]
pub fn fastcgi_answer(
    bytes: &[u8],
    cut: usize,
) -> Result<(Option<String>, Vec<u8>, Vec<u8>), String> {
    let (mut parser, mut received) = (Parser::default(), BytesMut::new());
    let (mut head, mut answer) = (Head::default(), None);
    let (mut body, mut errors) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(cut) {
        received.extend_from_slice(piece);
        while let Some(piece) = parser.next(&mut received)? {
            match piece {
                Piece::Output(output) if answer.is_some() => body.extend_from_slice(&output),
                Piece::Output(output) => {
                    if let Some((response, rest)) = head.add(&output)? {
                        answer = Some(format!("{response:?}"));
                        body.extend_from_slice(&rest);
                    }
                }
                Piece::Error(text) => errors.extend_from_slice(&text),
                Piece::End(_) => {}
            }
        }
    }
    Ok((answer, body, errors))
}

/// Bytes of the records around parameters, or a piece of a body.
const HEADS: usize = 64;
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;
