//! Both directions of a program's request, which move at once: a program may answer before
//! it has read all.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::Response;
use http_body::Body as _;
use tokio::io::AsyncWrite as _;

use crate::cgi::{Input, Output, Running};
use crate::upstream::connections::fastcgi::head::Head;
use crate::upstream::request::upload::Upload;

/// Program that answers a request. Dropping it ends the program.
pub(in crate::upstream) struct Conversation {
    /// None once the body is sent whole, or if the program takes no more.
    sending: Option<(Input, Upload)>,
    /// Bytes of the body that the program has not taken.
    out: Bytes,
    output: Output,
    /// Output that came with the head.
    ahead: Bytes,
    /// Bytes of output that may still come.
    left: u64,
}

/// Error of a conversation.
pub(in crate::upstream) type Broken = Box<dyn Error + Send + Sync>;

impl Conversation {
    pub(super) fn new(running: Running, upload: Upload) -> Self {
        let Running { input, output } = running;
        Self {
            sending: (!upload.is_end_stream()).then_some((input, upload)),
            out: Bytes::new(),
            output,
            ahead: Bytes::new(),
            left: MOST,
        }
    }

    /// Returns the head of the answer.
    pub(super) async fn head(&mut self) -> Result<Response<()>, Broken> {
        let mut head = Head::default();
        loop {
            let output = poll_fn(|cx| self.poll_output(cx)).await?;
            let output = output.ok_or("it ended without a head")?;
            if let Some((response, rest)) = head.add(&output)? {
                self.output.note_head();
                self.ahead = rest;
                return Ok(response);
            }
        }
    }

    /// Returns the next piece of the answer's body; none at its end.
    ///
    /// # Errors
    /// If the program fails, or writes too much.
    pub(in crate::upstream) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.ahead))));
        }
        self.poll_output(cx)
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        self.send(cx)?;
        let piece = ready!(self.output.poll_piece(cx))?;
        if let Some(piece) = &piece {
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or("it wrote more than 1 GiB")?;
        }
        Poll::Ready(Ok(piece))
    }

    /// Sends as much of the body as the program takes. One that takes no more may have
    /// answered all the same.
    ///
    /// # Errors
    /// Those of the body.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        while let Some((input, upload)) = &mut self.sending {
            while !self.out.is_empty() {
                match Pin::new(&mut *input).poll_write(cx, &self.out) {
                    Poll::Ready(Ok(written)) if written > 0 => self.out.advance(written),
                    Poll::Ready(_) => {
                        self.sending = None;
                        return Ok(());
                    }
                    Poll::Pending => return Ok(()),
                }
            }
            match Pin::new(upload).poll_frame(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                // Trailers have no place in CGI.
                Poll::Ready(Some(Ok(frame))) => self.out = frame.into_data().unwrap_or_default(),
                Poll::Ready(None) => self.sending = None,
            }
        }
        Ok(())
    }
}

/// Bytes that a program may write.
const MOST: u64 = 1 << 30;
