//! From the accepted connection to the answered request.
#![forbid(unsafe_code)]

pub mod config;
mod files;
pub mod metrics;
pub mod redirect;
pub mod site;
