//! Runs of scripts, as a server sees them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bounds;
mod cached;
mod catching;
mod choosing;
mod clients;
mod cpu;
mod failures;
mod fake;
mod files;
mod sandbox;
mod shares;
mod stale;
