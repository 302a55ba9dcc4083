//! Compresses an answer while it is sent.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use sekisho_certs::Tenant;
use sekisho_gate::Permit;
use tokio::task::coop::consume_budget;

use super::encode::Gzip;
use super::gates::{AT_ONCE, Coders, Encoder};
use crate::limits::budget::Prefix;
use crate::site::body::Body;

/// Returns a body in gzip, of an answer of this tenant's host. A pause of what it compresses
/// flushes the encoder: a page that comes bit by bit is not kept back. Trailers pass. After an
/// error the stream has no trailer of gzip, so that the client notices the end as one.
pub(crate) fn compressed(
    inner: Body,
    (gzip, permit): Encoder,
    coders: Arc<Coders>,
    tenant: Tenant,
) -> Body {
    let coded = Coded {
        inner,
        gzip: Some(gzip),
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
struct Coded {
    inner: Body,
    /// None once all is sent but trailers, or an error was.
    gzip: Option<Box<Gzip>>,
    /// Whether the encoder keeps bytes that were not sent.
    is_unsent: bool,
    trailers: Option<HeaderMap>,
    coders: Arc<Coders>,
    /// Tenant whose turns its pieces take.
    tenant: Tenant,
    _permit: Permit<Prefix>,
}

impl Coded {
    /// Returns what the encoder makes of the next frames: as many as it takes until there is
    /// something to send.
    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        while let Some(mut gzip) = self.gzip.take() {
            let out = match self.inner.frame().now_or_never() {
                None if self.is_unsent => {
                    self.is_unsent = false;
                    let out = gzip.flush();
                    self.gzip = Some(gzip);
                    Ok(out)
                }
                None => {
                    let frame = self.inner.frame().await;
                    self.take(gzip, frame).await
                }
                Some(frame) => self.take(gzip, frame).await,
            };
            match out {
                // Frames that shrink to nothing yet leave the worker to others, too.
                Ok(out) if out.is_empty() => consume_budget().await,
                out => return Some(out.map(|out| Frame::data(out.into()))),
            }
        }
        self.trailers.take().map(|all| Ok(Frame::trailers(all)))
    }

    /// Compresses a frame, a long one beside the worker. Without a turn in time, the body
    /// breaks off. Ends the stream with the body.
    async fn take(
        &mut self,
        mut gzip: Box<Gzip>,
        frame: Option<io::Result<Frame<Bytes>>>,
    ) -> io::Result<Vec<u8>> {
        let Some(frame) = frame.transpose()? else {
            return Ok(gzip.finish());
        };
        let piece = match frame.into_data() {
            Ok(piece) => piece,
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                return Ok(gzip.finish());
            }
        };
        let is_long = piece.len() > AT_ONCE;
        let write = move || {
            let out = gzip.write(&piece);
            (gzip, out)
        };
        self.is_unsent = true;
        let written = match is_long {
            true => self.coders.beside(&self.tenant, write).await,
            false => Some(write()),
        };
        let late = || io::Error::other("no turn to compress the answer");
        let (gzip, out) = written.ok_or_else(late)?;
        self.gzip = Some(gzip);
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
