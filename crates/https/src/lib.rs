//! A small HTTPS client with bounds, and the certificate authorities that it
//! trusts.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod client;
mod describe;
pub mod roots;

#[cfg(feature = "client")]
pub use client::{BodyError, HttpsClient, Timeouts, body};
pub use describe::describe;
