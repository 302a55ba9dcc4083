//! Request bodies that are collected before they are passed on: what reads `CONTENT_LENGTH`
//! must be told a length, and a body of chunks or over HTTP/2 may come without.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use sekisho_certs::Tenant;
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::time::{Instant, timeout};

use super::exchange::Exchange;
use super::upload::Upload;
use crate::limits::budget::Prefix;
use crate::upstream::failure::Failure;

/// Bound on the bodies that are in memory: a client network has fewer than are left, and so
/// has a tenant, whose servers may take them slowly.
#[derive(Debug)]
pub(crate) struct Collecting {
    of_client: Gate<Prefix>,
    of_tenant: Gate<Tenant>,
}

/// Body in memory.
#[derive(Debug)]
pub(in crate::upstream) struct Whole {
    pub(super) bytes: Bytes,
    _permits: (Permit<Prefix>, Permit<Tenant>),
}

impl Collecting {
    pub(crate) fn new() -> Self {
        Self {
            of_client: Gate::new(AT_ONCE, Sharing::FewerThanLeft, MAX_WAITING),
            of_tenant: Gate::new(AT_ONCE, Sharing::FewerThanLeft, MAX_WAITING),
        }
    }

    /// Reads the body of a tenant's request to its end, within [`PATIENCE`]; waits for room
    /// until `until`.
    ///
    /// # Errors
    /// 411 if it is longer than [`LONGEST`], 413 if the site's `limit` is less; 408 if it is
    /// late, 503 if there is no room; and the failures of the client.
    pub(in crate::upstream) async fn collect(
        &self,
        (prefix, tenant): (Prefix, &Tenant),
        until: Instant,
        upload: Upload,
        of: (&Exchange, u64),
    ) -> Result<Upload, Failure> {
        let no_room = |_| Failure::Refused(StatusCode::SERVICE_UNAVAILABLE);
        let of_client = self.of_client.enter_until(prefix, until).await;
        let of_client = of_client.map_err(no_room)?;
        let of_tenant = self.of_tenant.enter_until(tenant.clone(), until).await;
        let of_tenant = of_tenant.map_err(no_room)?;
        let read = timeout(PATIENCE, Self::read(upload, of)).await;
        let late = |_| Failure::Refused(StatusCode::REQUEST_TIMEOUT);
        Ok(Upload::whole(Whole {
            bytes: read.map_err(late)??,
            _permits: (of_client, of_tenant),
        }))
    }

    async fn read(
        mut upload: Upload,
        (exchange, limit): (&Exchange, u64),
    ) -> Result<Bytes, Failure> {
        let mut collected = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut upload).poll_frame(cx)).await {
            let frame = frame.map_err(|_| match exchange.failure() {
                Some(Failure::TooLarge) if limit > LONGEST => {
                    Failure::Refused(StatusCode::LENGTH_REQUIRED)
                }
                failure => failure.unwrap_or(Failure::Client),
            })?;
            if let Some(data) = frame.data_ref() {
                collected.extend_from_slice(data);
            }
        }
        Ok(collected.freeze())
    }
}

/// Bytes of the longest body that is collected.
pub(in crate::upstream) const LONGEST: u64 = 1 << 20;
/// Longest time for a whole body: a client that sends it byte by byte keeps no room for long.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bodies at once: 256 MiB.
const AT_ONCE: usize = 256;
/// As many requests as 40 connections of HTTP/2 may have in flight.
const MAX_WAITING: usize = 4096;
