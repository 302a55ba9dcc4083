//! Tests what a hook's choices make of handshakes and requests.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod choices;
mod long;
mod made;
mod routes;
mod tickets;
mod world;
