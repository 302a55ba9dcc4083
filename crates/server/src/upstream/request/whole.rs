//! Request bodies that are collected before they are passed on: what reads `CONTENT_LENGTH`
//! must be told a length, and a body of chunks or over HTTP/2 may come without.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use tokio::time::Instant;

use super::exchange::{Exchange, GAVE_WAY, TOO_LARGE};
use super::upload::Upload;
use crate::limits::budget::Prefix;
use crate::upstream::failure::Failure;

/// Bound on the bodies that are in memory: a client network has fewer than are left.
#[derive(Debug)]
pub(crate) struct Collecting(Gate<Prefix>);

/// Body in memory.
#[derive(Debug)]
pub(in crate::upstream) struct Whole {
    pub(super) bytes: Bytes,
    _permit: Permit<Prefix>,
}

impl Collecting {
    pub(crate) fn new() -> Self {
        Self(Gate::new(AT_ONCE, Sharing::FewerThanLeft, MAX_WAITING))
    }

    /// Reads a body to its end; waits for room until `until`.
    ///
    /// # Errors
    /// 411 if it is longer than [`LONGEST`], 413 if the site's `limit` is less; and the
    /// failures of the client.
    pub(in crate::upstream) async fn collect(
        &self,
        prefix: Prefix,
        until: Instant,
        mut upload: Upload,
        (exchange, limit): (&Exchange, u64),
    ) -> Result<Upload, Failure> {
        let permit = self.0.enter_until(prefix, until).await;
        let permit = permit.map_err(|denied| match denied {
            Denied::Full | Denied::Late => Failure::Refused(StatusCode::SERVICE_UNAVAILABLE),
        })?;
        let mut collected = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut upload).poll_frame(cx)).await {
            let frame = frame.map_err(|_| match () {
                () if exchange.is(TOO_LARGE) && limit > LONGEST => {
                    Failure::Refused(StatusCode::LENGTH_REQUIRED)
                }
                () if exchange.is(TOO_LARGE) => Failure::TooLarge,
                () if exchange.is(GAVE_WAY) => Failure::GaveWay,
                () => Failure::Client,
            })?;
            if let Some(data) = frame.data_ref() {
                collected.extend_from_slice(data);
            }
        }
        Ok(Upload::whole(Whole {
            bytes: collected.freeze(),
            _permit: permit,
        }))
    }
}

/// Bytes of the longest body that is collected.
pub(in crate::upstream) const LONGEST: u64 = 1 << 20;
/// Bodies at once: 256 MiB.
const AT_ONCE: usize = 256;
/// As many requests as 40 connections of HTTP/2 may have in flight.
const MAX_WAITING: usize = 4096;
