//! From the accepted socket to the end of the handshake, and what is known of a connection
//! and its request from then on.

pub(crate) mod accept;
pub(crate) mod client;
pub(crate) mod connections;
pub(crate) mod drain;
pub(crate) mod handshake;
pub(crate) mod peer;
pub(crate) mod proxy_protocol;
pub(crate) mod request;
pub(crate) mod stage;
