//! Tests of admission with real DNS and HTTP servers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod addresses;
mod ask;
mod caa;
mod fixture;
mod nameserver;
mod records;
