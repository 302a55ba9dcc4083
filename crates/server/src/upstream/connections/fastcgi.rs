//! FastCGI connection, which serves one request at a time.

pub(in crate::upstream) mod record;
#[cfg(fuzzing)]
pub(in crate::upstream) mod testing;

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::sync::OwnedSemaphorePermit;

use super::transport::Transport;
use crate::cgi::Complaints;
use crate::upstream::conversation::{Broken, Conversation, Runner};
use crate::upstream::failure::Failure;
use crate::upstream::request::upload::Upload;
use record::{Parser, Piece};

/// Connection to a FastCGI server.
pub(in crate::upstream) struct FastCgi {
    transport: Transport,
    received: BytesMut,
    parser: Parser,
    /// None while no request uses the connection.
    complaints: Option<Complaints>,
    /// A byte of the current answer has come.
    pub(in crate::upstream) is_answered: bool,
    /// The script wrote a piece of the current answer.
    has_output: bool,
    /// Served a request before.
    pub(in crate::upstream) reused: bool,
    /// Place among the unused connections that are kept; none while it is used.
    pub(in crate::upstream) kept: Option<OwnedSemaphorePermit>,
}

impl FastCgi {
    pub(in crate::upstream) fn new(transport: Transport) -> Self {
        Self {
            transport,
            received: BytesMut::new(),
            parser: Parser::default(),
            complaints: None,
            is_answered: false,
            has_output: false,
            reused: false,
            kept: None,
        }
    }

    /// Begins a request. `params` are encoded by [`record::pair`]; with `keep`, the connection
    /// is to stay open.
    pub(in crate::upstream) fn begin(
        &mut self,
        params: &[u8],
        upload: Upload,
        keep: bool,
        complaints: Complaints,
    ) -> Conversation {
        let mut out = Vec::with_capacity(params.len() + HEADS);
        record::begin(&mut out, keep);
        record::params(&mut out, params);
        if upload.is_end_stream() {
            record::input(&mut out, b"");
        }
        self.parser = Parser::default();
        self.is_answered = false;
        self.has_output = false;
        self.complaints = Some(complaints);
        Conversation::new(out.into(), upload)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.received.reserve(PIECE);
        let read = pin!(self.transport.read_buf(&mut self.received)).poll(cx);
        match ready!(read)? {
            0 => Poll::Ready(Err("the connection ended before the answer".into())),
            _ => {
                self.is_answered = true;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Returns whether another request may use the connection: the last one ended in order,
    /// and the server has neither closed it nor sent more.
    pub(in crate::upstream) fn is_ready(&mut self) -> bool {
        at_rest(&mut self.transport) && self.parser.has_ended && self.received.is_empty()
    }
}

impl Runner for FastCgi {
    fn frame(&mut self, piece: Bytes) -> Bytes {
        let mut out = Vec::with_capacity(piece.len() + HEADS);
        record::input(&mut out, &piece);
        out.into()
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, bytes)
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        loop {
            match self.parser.next(&mut self.received)? {
                None => ready!(self.poll_receive(cx))?,
                Some(Piece::Output(output)) => {
                    self.has_output = true;
                    return Poll::Ready(Ok(Some(output)));
                }
                Some(Piece::Error(text)) => {
                    let complaints = self.complaints.as_mut();
                    if !complaints.is_none_or(|complaints| complaints.add(&text)) {
                        return Poll::Ready(Err("it wrote over 1 MiB to standard error".into()));
                    }
                }
                Some(Piece::End(record::REQUEST_COMPLETE)) => {
                    // The log gets what the script wrote.
                    self.complaints = None;
                    return Poll::Ready(Ok(None));
                }
                Some(Piece::End(record::CANT_MPX_CONN | record::OVERLOADED))
                    if !self.has_output =>
                {
                    return Poll::Ready(Err(Failure::Overloaded.into()));
                }
                Some(Piece::End(_)) => {
                    return Poll::Ready(Err("the server did not take the request".into()));
                }
            }
        }
    }
}

/// Returns whether nothing has come from a server, and the connection is open.
fn at_rest(transport: &mut Transport) -> bool {
    let mut byte = [0];
    let read = pin!(transport.read(&mut byte));
    read.poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

/// Bytes of the records around parameters, or a piece of a body.
const HEADS: usize = 64;
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;
