//! Conversation with what runs a script: a FastCGI server, or a CGI program.
//!
//! The request's task drives it, and later the body of the answer: there is no task of its
//! own. Both directions move at once, since a script may answer before it has read all.

pub(in crate::upstream) mod head;

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body as _, Frame};

use super::request::upload::Upload;
use crate::site::value::number;
use head::Head;

/// What runs scripts.
pub(in crate::upstream) trait Runner {
    /// Makes what is sent for a piece of the request's body; an empty piece ends the body.
    fn frame(&mut self, piece: Bytes) -> Bytes;

    /// Sends a part of these bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Receives the next piece of output; none once the request has ended in order. Is not
    /// polled again after that, or after an error.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>>;
}

/// Request that a script answers.
pub(in crate::upstream) struct Conversation {
    /// Bytes to send.
    out: Bytes,
    /// Body of the request; none once it is sent whole, or if the runner takes no more.
    upload: Option<Upload>,
    /// Output that came with the head.
    ahead: Bytes,
    /// The whole answer has come.
    pub(in crate::upstream) has_ended: bool,
    /// Bytes that the head promised, and that have not come; none if it promised none.
    pub(in crate::upstream) left: Option<u64>,
    /// The answer has no body: output is not passed on.
    is_bodiless: bool,
}

/// Error of a conversation.
pub(in crate::upstream) type Broken = Box<dyn Error + Send + Sync>;

impl Conversation {
    /// Makes a request whose body follows `out`. Without a body, that ends the request.
    pub(in crate::upstream) fn new(out: Bytes, upload: Upload) -> Self {
        Self {
            out,
            upload: (!upload.is_end_stream()).then_some(upload),
            ahead: Bytes::new(),
            has_ended: false,
            left: None,
            is_bodiless: false,
        }
    }

    /// Sends the request, and returns the head of its answer.
    ///
    /// # Errors
    /// If the conversation ends, or what comes is no answer.
    pub(in crate::upstream) async fn ask(
        &mut self,
        runner: &mut impl Runner,
        method: &Method,
    ) -> Result<Response<()>, Broken> {
        let mut head = Head::default();
        let (response, rest) = loop {
            let output = poll_fn(|cx| self.poll_output(cx, runner)).await?;
            let output = output.ok_or("it ended without a head")?;
            if let Some(complete) = head.add(&output)? {
                break complete;
            }
        };
        self.ahead = rest;
        let length = response.headers().get(CONTENT_LENGTH).map(length_of);
        let left = length.transpose()?;
        let status = response.status();
        self.is_bodiless = *method == Method::HEAD
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        self.left = left.filter(|_| !self.is_bodiless);
        Ok(response)
    }

    /// Takes the next frame of the answer's body.
    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        runner: &mut impl Runner,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while !self.has_ended {
            let piece = match self.ahead.is_empty() {
                true => ready!(self.poll_output(cx, runner)).map_err(io::Error::other)?,
                false => Some(std::mem::take(&mut self.ahead)),
            };
            if let Some(taken) = self.take(piece).transpose() {
                return Poll::Ready(Some(taken));
            }
        }
        Poll::Ready(None)
    }

    /// Judges a piece, or the end, by what the head promised.
    fn take(&mut self, piece: Option<Bytes>) -> io::Result<Option<Frame<Bytes>>> {
        let Some(piece) = piece else {
            return match self.left {
                Some(left) if left > 0 => Err(io::Error::other("it is shorter than its length")),
                _ => Ok(None),
            };
        };
        if self.is_bodiless {
            return Ok(None);
        }
        if let Some(left) = &mut self.left {
            let rest = left.checked_sub(piece.len() as u64);
            *left = rest.ok_or_else(|| io::Error::other("it is longer than its length"))?;
        }
        Ok(Some(Frame::data(piece)))
    }

    /// Moves both directions until there is output; none once the request has ended.
    fn poll_output(
        &mut self,
        cx: &mut Context<'_>,
        runner: &mut impl Runner,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        self.send(cx, runner)?;
        let output = ready!(runner.poll_output(cx))?;
        self.has_ended = output.is_none();
        Poll::Ready(Ok(output))
    }

    /// Sends as much as the runner takes. A script that takes no more may have answered all
    /// the same.
    ///
    /// # Errors
    /// Those of the request's body.
    fn send(&mut self, cx: &mut Context<'_>, runner: &mut impl Runner) -> Result<(), Broken> {
        loop {
            while !self.out.is_empty() {
                match runner.poll_send(cx, &self.out) {
                    Poll::Ready(Ok(sent)) if sent > 0 => self.out.advance(sent),
                    Poll::Ready(_) => {
                        (self.out, self.upload) = (Bytes::new(), None);
                        return Ok(());
                    }
                    Poll::Pending => return Ok(()),
                }
            }
            let Some(upload) = &mut self.upload else {
                return Ok(());
            };
            match Pin::new(upload).poll_frame(cx)? {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(frame)) => {
                    // Trailers have no place in CGI.
                    let piece = frame.into_data().unwrap_or_default();
                    if !piece.is_empty() {
                        self.out = runner.frame(piece);
                    }
                }
                Poll::Ready(None) => {
                    self.out = runner.frame(Bytes::new());
                    self.upload = None;
                }
            }
        }
    }

    /// Returns whether the runner has taken the whole request.
    pub(in crate::upstream) fn is_sent(&self) -> bool {
        self.out.is_empty() && self.upload.is_none()
    }

    /// Returns whether the script goes on, though its answer needs no more of its output.
    pub(in crate::upstream) fn is_delivered(&self) -> bool {
        !self.has_ended && (self.is_bodiless || self.left == Some(0))
    }
}

/// Returns the length that a script is told: none without a body, unless one may be expected.
pub(in crate::upstream) fn length(upload: &Upload, fields: &HeaderMap) -> Option<u64> {
    let length = upload
        .size_hint()
        .exact()
        .filter(|_| !upload.is_end_stream());
    length.or(fields.contains_key(CONTENT_LENGTH).then_some(0))
}

fn length_of(value: &HeaderValue) -> Result<u64, &'static str> {
    let length = value.to_str().ok().and_then(number);
    length.ok_or("its length is no number")
}
