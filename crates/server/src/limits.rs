//! Limits on what a client, a connection or a request may take, and for how long.

pub(crate) mod bodies;
pub(crate) mod budget;
pub(crate) mod in_flight;
pub(crate) mod log_limiter;
pub mod network;
pub(crate) mod rates;
pub(crate) mod rest;
pub(crate) mod settings;
pub(crate) mod timeouts;
