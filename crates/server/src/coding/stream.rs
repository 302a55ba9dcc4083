//! Compresses an answer while it is sent.

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use sekisho_certs::Tenant;
use sekisho_gate::Permit;

use super::encode::Gzip;
use super::gates::{AT_ONCE, Coders, Encoder};
use crate::limits::budget::Prefix;
use crate::site::body::Body;

/// Body in gzip. A pause of what it compresses flushes the encoder: a page that comes bit by
/// bit is not kept back. Trailers pass. After an error the stream has no trailer of gzip, so
/// that the client notices the end as one.
pub(crate) struct Coded {
    inner: Body,
    state: State,
    /// Whether the encoder keeps bytes that were not sent.
    is_unsent: bool,
    trailers: Option<HeaderMap>,
    coders: Arc<Coders>,
    /// Tenant whose turns its pieces take.
    tenant: Tenant,
    _permit: Permit<Prefix>,
}

enum State {
    /// Waits for the next piece.
    Idle(Box<Gzip>),
    /// Compresses a piece beside the worker, or waits for a turn.
    Working(Working),
    /// All is sent but trailers, or an error was.
    Ended,
}

type Working = Pin<Box<dyn Future<Output = io::Result<(Box<Gzip>, Vec<u8>)>> + Send>>;

impl Coded {
    /// Compresses `inner`, an answer of this tenant's host.
    pub(crate) fn new(inner: Body, encoder: Encoder, coders: Arc<Coders>, tenant: Tenant) -> Self {
        let (gzip, permit) = encoder;
        Self {
            inner,
            state: State::Idle(gzip),
            is_unsent: false,
            trailers: None,
            coders,
            tenant,
            _permit: permit,
        }
    }

    /// Takes the next frame of the body, and returns what the encoder makes of it: no bytes, if
    /// it keeps them, or compresses them beside the worker.
    fn poll_inner(
        &mut self,
        cx: &mut Context<'_>,
        mut gzip: Box<Gzip>,
    ) -> Poll<io::Result<Vec<u8>>> {
        let out = match Pin::new(&mut self.inner).poll_frame(cx)? {
            Poll::Pending if self.is_unsent => {
                self.is_unsent = false;
                gzip.flush()
            }
            Poll::Pending => {
                self.state = State::Idle(gzip);
                return Poll::Pending;
            }
            Poll::Ready(Some(frame)) => match frame.into_data() {
                Ok(piece) => {
                    self.is_unsent = true;
                    if piece.len() > AT_ONCE {
                        self.state = State::Working(self.compress(gzip, piece));
                        return Poll::Ready(Ok(Vec::new()));
                    }
                    gzip.write(&piece)
                }
                Err(frame) => {
                    self.trailers = frame.into_trailers().ok();
                    return Poll::Ready(Ok(gzip.finish()));
                }
            },
            Poll::Ready(None) => return Poll::Ready(Ok(gzip.finish())),
        };
        self.state = State::Idle(gzip);
        Poll::Ready(Ok(out))
    }

    /// Compresses a piece beside the worker. Without a turn in time, the body breaks off.
    fn compress(&self, mut gzip: Box<Gzip>, piece: Bytes) -> Working {
        let (coders, tenant) = (Arc::clone(&self.coders), self.tenant.clone());
        Box::pin(async move {
            let compressed = coders.beside(&tenant, move || {
                let out = gzip.write(&piece);
                (gzip, out)
            });
            let late = || io::Error::other("no turn to compress the answer");
            compressed.await.ok_or_else(late)
        })
    }
}

impl http_body::Body for Coded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        for _ in 0..MAX_FRAMES {
            let out = match mem::replace(&mut this.state, State::Ended) {
                State::Idle(gzip) => ready!(this.poll_inner(cx, gzip)),
                State::Working(mut working) => match working.as_mut().poll(cx) {
                    Poll::Pending => {
                        this.state = State::Working(working);
                        return Poll::Pending;
                    }
                    Poll::Ready(done) => done.map(|(gzip, out)| {
                        this.state = State::Idle(gzip);
                        out
                    }),
                },
                State::Ended => {
                    let trailers = this.trailers.take();
                    return Poll::Ready(trailers.map(|fields| Ok(Frame::trailers(fields))));
                }
            };
            match out {
                Ok(out) if out.is_empty() => {}
                out => return Poll::Ready(Some(out.map(|out| Frame::data(out.into())))),
            }
        }
        // Frames that shrink to nothing yet leave the worker to others, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended) && self.trailers.is_none()
    }
}

/// Frames of the body that are taken in a row: of [`AT_ONCE`] bytes each, they take a
/// worker less than 1 ms.
const MAX_FRAMES: usize = 16;

#[cfg(test)]
mod tests;
