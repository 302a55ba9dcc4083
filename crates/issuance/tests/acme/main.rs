//! The ACME client against real CAs: Pebble, and a scripted one for what Pebble can't
//! do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod authorities;
mod dns01;
mod fixture;
mod orders;
mod refusals;
mod renewals;
mod scripted;
mod shared_account;
