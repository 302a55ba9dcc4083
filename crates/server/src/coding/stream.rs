//! Compresses an answer while it is sent.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use sekisho_certs::Tenant;
use sekisho_gate::Permit;
use tokio::task::coop::consume_budget;

use super::encode::{Gzip, KEPT, at_once};
use super::gates::{Coders, Encoder};
use crate::limits::budget::Prefix;
use crate::site::body::Body;

/// Returns a body in gzip, of an answer of this tenant's host. A pause of what it compresses
/// flushes the encoder: a page that comes bit by bit is not kept back. Trailers pass. After an
/// error the stream has no trailer of gzip, so that the client notices the end as one.
pub(crate) fn compress_stream(
    inner: Body,
    (gzip, level, permit): Encoder,
    coders: Arc<Coders>,
    tenant: Tenant,
) -> Body {
    let coded = CodedStream {
        inner,
        gzip: Some(gzip),
        level,
        is_unsent: false,
        trailers: None,
        coders,
        tenant,
        _permit: permit,
    };
    let frames = unfold(coded, |mut coded| async move {
        let frame = coded.next().await?;
        Some((frame, coded))
    });
    Body::passing(StreamBody::new(Box::pin(frames)))
}

/// Body that is compressed, and how far it has come.
struct CodedStream {
    inner: Body,
    /// Encoder; none once the content is sent, or an error.
    gzip: Option<Box<Gzip>>,
    level: u8,
    /// Whether the encoder keeps bytes that were not sent.
    is_unsent: bool,
    trailers: Option<HeaderMap>,
    coders: Arc<Coders>,
    /// Tenant whose turns its pieces take.
    tenant: Tenant,
    _permit: Permit<Prefix>,
}

/// Work of an encoder.
enum Step {
    Write(Bytes),
    Flush,
    Finish,
}

impl CodedStream {
    /// Returns what the encoder makes of the next frames: as many as it takes until there is
    /// something to send.
    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        while let Some(gzip) = self.gzip.take() {
            match self.advance(gzip).await {
                // Frames that shrink to nothing yet leave the worker to others, too.
                Ok(out) if out.is_empty() => consume_budget().await,
                out => return Some(out.map(|out| Frame::data(out.into()))),
            }
        }
        self.trailers.take().map(|all| Ok(Frame::trailers(all)))
    }

    /// Does the next step, one that may take long beside the worker.
    async fn advance(&mut self, mut gzip: Box<Gzip>) -> io::Result<Vec<u8>> {
        let step = self.next_step().await?;
        let (bytes, is_unsent) = match &step {
            Step::Write(piece) => (piece.len(), true),
            Step::Flush | Step::Finish => (KEPT, false),
        };
        self.is_unsent = is_unsent;
        let work = move || match step {
            Step::Write(piece) => (gzip.write(&piece), Some(gzip)),
            Step::Flush => (gzip.flush(), Some(gzip)),
            Step::Finish => (gzip.finish(), None),
        };
        let (out, gzip) = match bytes <= at_once(self.level) {
            true => work(),
            false => self.coders.beside(&self.tenant, work).await?,
        };
        self.gzip = gzip;
        Ok(out)
    }

    /// Takes a frame of the body. Without one at hand, what was not sent is flushed first.
    async fn next_step(&mut self) -> io::Result<Step> {
        let frame = match self.inner.frame().now_or_never() {
            None if self.inner.is_end_stream() => return Ok(Step::Finish),
            None if self.is_unsent => return Ok(Step::Flush),
            None => self.inner.frame().await,
            Some(frame) => frame,
        };
        let Some(frame) = frame.transpose()? else {
            return Ok(Step::Finish);
        };
        Ok(match frame.into_data() {
            Ok(piece) => Step::Write(piece),
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                Step::Finish
            }
        })
    }
}

#[cfg(test)]
mod tests;
