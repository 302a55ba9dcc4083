//! Body of an answer as it arrives: of HTTP, or of FastCGI.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::upstream::connections::lease::Lease;
use crate::upstream::connections::pool::Opened;
use crate::upstream::failure::Failure;
use crate::upstream::program::Conversation;

/// Body of an answer.
pub(in crate::upstream) enum Arriving {
    Http(Incoming),
    /// Output of a script, which its connection reads.
    FastCgi(Output),
    /// Output of a program.
    Program(Box<Conversation>, Output),
    /// The body was taken away.
    Nothing,
}

/// What is known of a script's output.
pub(in crate::upstream) struct Output {
    /// Bytes that the head promised, and that have not come; none if it promised none.
    left: Option<u64>,
    /// The answer has no body: output is not passed on.
    is_bodiless: bool,
    has_ended: bool,
}

impl Arriving {
    /// Makes the answer of a script to a request of this method.
    ///
    /// # Errors
    /// If its length is none.
    pub(in crate::upstream) fn of_script(
        response: Response<()>,
        method: &Method,
    ) -> Result<Response<Self>, Failure> {
        let output = Output::of(&response, method)?;
        Ok(response.map(|()| Self::FastCgi(output)))
    }

    /// Makes that of a program, likewise.
    ///
    /// # Errors
    /// If its length is none.
    pub(in crate::upstream) fn of_program(
        response: Response<()>,
        method: &Method,
        conversation: Box<Conversation>,
    ) -> Result<Response<Self>, Failure> {
        let output = Output::of(&response, method)?;
        Ok(response.map(|()| Self::Program(conversation, output)))
    }

    /// Takes the next frame; `lease` has the connection that the answer comes from.
    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        lease: Option<&mut Lease>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self {
            Self::Http(body) => {
                let mut poll = || (Pin::new(&mut *body).poll_frame(cx), body.is_end_stream());
                let frame = match lease.as_ref().and_then(|lease| lease.wakes()) {
                    Some(wakes) => wakes.while_taking(poll),
                    None => poll().0,
                };
                frame.map_err(io::Error::other)
            }
            Self::FastCgi(output) => match lease.and_then(|lease| lease.connection.as_mut()) {
                Some(Opened::FastCgi(connection)) => {
                    output.poll_frame(cx, |cx| connection.poll_body(cx))
                }
                _ => Poll::Ready(None),
            },
            Self::Program(conversation, output) => {
                output.poll_frame(cx, |cx| conversation.poll_body(cx))
            }
            Self::Nothing => Poll::Ready(None),
        }
    }

    pub(in crate::upstream) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http(body) => body.is_end_stream(),
            Self::FastCgi(output) | Self::Program(_, output) => output.has_ended,
            Self::Nothing => true,
        }
    }

    /// Returns whether a script goes on, though its answer needs no more of its output.
    pub(super) fn is_delivered(&self) -> bool {
        match self {
            Self::FastCgi(output) | Self::Program(_, output) => {
                !output.has_ended && (output.is_bodiless || output.left == Some(0))
            }
            Self::Http(_) | Self::Nothing => false,
        }
    }

    pub(in crate::upstream) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http(body) => body.size_hint(),
            Self::FastCgi(Output { left, .. }) | Self::Program(_, Output { left, .. }) => {
                left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Self::Nothing => SizeHint::with_exact(0),
        }
    }
}

impl Output {
    fn of(response: &Response<()>, method: &Method) -> Result<Self, Failure> {
        let length = response.headers().get(CONTENT_LENGTH).map(length_of);
        let left = length.transpose()?;
        let status = response.status();
        let is_bodiless = *method == Method::HEAD
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(Self {
            left: left.filter(|_| !is_bodiless),
            is_bodiless,
            has_ended: false,
        })
    }

    /// Takes pieces until there is one to pass on.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if self.has_ended {
                return Poll::Ready(None);
            }
            let piece = ready!(poll(cx)).map_err(io::Error::other)?;
            if let Some(taken) = self.take(piece).transpose() {
                return Poll::Ready(Some(taken));
            }
        }
    }

    /// Judges a piece, or the end, by what the head promised.
    fn take(&mut self, piece: Option<Bytes>) -> io::Result<Option<Frame<Bytes>>> {
        let Some(piece) = piece else {
            self.has_ended = true;
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
}

/// Error of a script's output.
type Broken = Box<dyn Error + Send + Sync>;

fn length_of(value: &HeaderValue) -> Result<u64, Failure> {
    let digits = value.to_str().ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok());
    length.ok_or(Failure::answer("its length is no number"))
}
