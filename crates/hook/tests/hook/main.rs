//! Runs of scripts, as a server sees them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bounds;
mod cached;
mod choosing;
mod clients;
mod cpu;
mod failures;
mod fake;
mod files;
mod memory;
mod sandbox;
mod shares;
mod stale;
