//! Bounds on what an upstream sends beside its answers: informational answers, frames of
//! HTTP/2, and records of TLS without data.
//!
//! hyper reads any number of informational answers over HTTP/1.1. Over HTTP/2, h2 queues
//! each until the request's task passes over it, and answers each PING and SETTINGS. An
//! upstream that sends them for ever would keep both busy.

use std::io;
use std::sync::Arc;

use sekisho_certs::clock;
use tokio::time::Instant;

use super::informational::Informational;
use super::metered::Records;
use super::pool::Streams;
use crate::tls::frames::parser::{HEADERS, Parser, SETTINGS};
use crate::tls::frames::{Budget, OF_UPSTREAMS};

/// Bound of a transport's bytes.
pub(in crate::upstream) enum Bound {
    /// Nothing is bounded: HTTP has not begun, or the connection has left it.
    None,
    /// Charges the records below TLS.
    Records(Box<Records>),
    /// Reads the heads of HTTP/1.1.
    Http1(Arc<Informational>),
    Http2(Box<Frames>),
}

/// Bound of HTTP/2: charges the server's frames to a budget, and its HEADERS also to the
/// streams of the connection. Tells these of SETTINGS.
pub(in crate::upstream) struct Frames {
    received: Parser,
    sent: Parser,
    budget: Budget,
    begun: Instant,
    streams: Arc<Streams>,
    /// The current frame is SETTINGS.
    in_settings: bool,
}

impl Bound {
    /// Makes the bound of a connection of HTTP/2.
    pub(in crate::upstream) fn http2(streams: Arc<Streams>) -> Self {
        Self::Http2(Box::new(Frames {
            received: Parser::client(),
            // The upstream parses our bytes as a server does.
            sent: Parser::server(),
            budget: Budget::new(&OF_UPSTREAMS),
            begun: clock::monotonic(),
            streams,
            in_settings: false,
        }))
    }

    /// Notes received bytes.
    ///
    /// # Errors
    /// The error of reading them, or what there is too much of.
    pub(in crate::upstream) fn received(
        &mut self,
        read: io::Result<()>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let flood = match self {
            Self::None => None,
            Self::Records(records) => {
                let begun = records.begun;
                let is_within = records.received(bytes, || clock::monotonic() - begun);
                (!is_within).then_some(RECORDS)
            }
            Self::Http1(informational) => (!informational.received(bytes)).then_some(INFORMATIONAL),
            Self::Http2(frames) => frames.received(bytes),
        };
        let judged = read.and_then(|()| match flood {
            None => Ok(()),
            Some(flood) => Err(io::Error::new(io::ErrorKind::InvalidData, flood)),
        });
        judged.inspect_err(|error| self.blame(error, flood))
    }

    /// Notes `bytes` bytes of plaintext that TLS has opened.
    pub(in crate::upstream) fn opened(&mut self, bytes: usize) {
        if let Self::Records(records) = self {
            records.opened(bytes);
        }
    }

    /// Notes sent bytes.
    pub(in crate::upstream) fn sent(&mut self, bytes: &[u8]) {
        if let Self::Http2(frames) = self {
            let Frames { sent, budget, .. } = &mut **frames;
            sent.feed(bytes, |head| budget.sent(head));
        }
    }

    /// Tells the streams why their connection ends, if the server is to blame.
    fn blame(&self, error: &io::Error, flood: Option<&'static str>) {
        if let Self::Http2(frames) = self
            && error.kind() == io::ErrorKind::InvalidData
        {
            // The first flood is what ended the connection.
            let _ = frames.streams.flood.set(flood.unwrap_or(TLS));
        }
    }
}

impl Frames {
    /// Notes received bytes. Returns what there is too much of, if anything.
    fn received(&mut self, bytes: &[u8]) -> Option<&'static str> {
        let Self {
            received,
            budget,
            begun,
            streams,
            in_settings,
            ..
        } = self;
        let (mut has_informational, mut has_settings) = (false, false);
        received.feed(bytes, |head| {
            has_settings |= *in_settings;
            *in_settings = head.kind == SETTINGS;
            has_informational |= head.kind == HEADERS && !streams.take_block();
            budget.received(head, || clock::monotonic() - *begun);
        });
        if *in_settings && received.rest() == 0 {
            (has_settings, *in_settings) = (true, false);
        }
        if has_settings {
            // The task that reads the socket runs first.
            streams.reader.wake();
        }
        match has_informational {
            true => Some(INFORMATIONAL),
            false => budget.is_spent().then_some(FRAMES),
        }
    }
}

const INFORMATIONAL: &str = "over 8 informational answers";
const FRAMES: &str = "more frames of HTTP/2 than its answers need";
const RECORDS: &str = "too many records of TLS without data";
/// Error of TLS while it is read, [`RECORDS`] included.
const TLS: &str = "its records of TLS are wrong, or too many without data";
