//! Starts everything, and ends it: the server with its threads, listeners, signals, and the
//! operator's listener.

pub mod admin;
pub(crate) mod listen;
pub(crate) mod server;
pub mod shutdown;
pub(crate) mod worker;
