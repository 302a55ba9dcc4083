//! What the tests of every crate share.
#![forbid(unsafe_code)]

pub mod ca;
pub mod client;
pub mod services;

pub use ca::{Key, Pair, TestCa};
