//! Connections to upstream servers, each of the worker that opened it.

pub(in crate::upstream) mod bounded;
pub(in crate::upstream) mod connect;
pub(in crate::upstream) mod descriptors;
pub(in crate::upstream) mod fastcgi;
pub(in crate::upstream) mod identity;
mod informational;
pub(in crate::upstream) mod judged;
pub(in crate::upstream) mod lease;
mod metered;
pub(in crate::upstream) mod opening;
pub(in crate::upstream) mod pool;
pub(in crate::upstream) mod sockets;
pub(in crate::upstream) mod tls;
pub(in crate::upstream) mod transport;
mod wakes;
