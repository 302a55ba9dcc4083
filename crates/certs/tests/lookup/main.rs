//! The rules of the lookup, each shown through its two public steps.

#![allow(clippy::unwrap_used)]

mod cache;
mod changes;
mod fresh;
mod hand_over;
mod model;
mod obtain;
mod outcomes;
mod plain;
mod refresh;
mod replaced;
mod scripted;
mod singleflight;
