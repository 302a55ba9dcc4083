//! Serves connections, from the accepted socket to the answered request.
//!
//! Bytes flow through the modules in this order: [`Settings`] say where, `listen`
//! binds, `worker` runs, `accept` accepts, `hello` reads the ClientHello, [`hook`] may
//! choose what the client gets, `ask` looks a name up, `handshake` finishes with what
//! `virtual_host` made of the record, `tls` encrypts, `frames` counts the frames of
//! HTTP/2, `http` speaks, `timeouts` ends what makes no progress, `route` finds who
//! answers a request, `respond` decides by its [`site`], and `files`, `upstream` or a
//! redirect answers it. CAs that validate a challenge are answered by `challenge`, from
//! `handshake` and `http`.
#![deny(unsafe_code)]

mod accept;
pub mod access_log;
pub mod admin;
mod ask;
mod authority;
mod bodies;
mod body;
mod budget;
mod challenge;
mod client;
mod connections;
mod drain;
mod error;
mod files;
mod frames;
mod framing;
mod handshake;
mod hello;
pub mod hook;
mod http;
pub mod line_writer;
mod listen;
mod log_limiter;
pub mod metrics;
pub mod network;
mod peer;
pub mod private;
mod proxy_protocol;
mod rates;
mod refuse;
mod request;
mod reserved;
mod respond;
mod rest;
mod route;
mod server;
mod settings;
mod shares;
pub mod shutdown;
mod signing;
pub mod site;
mod stage;
pub mod tickets;
mod timeouts;
mod tls;
mod upstream;
pub mod value;
mod virtual_host;
mod worker;

/// Entry points for the fuzz targets; cargo-fuzz sets `cfg(fuzzing)`.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::hello::client_hello;
    pub use crate::proxy_protocol::proxy_header;
    pub use crate::site::site_path;
}

pub use body::Body;
pub use error::Error;
pub use files::{MAX_OPEN_FILES, OpenFiles};
pub use respond::Responder;
pub use server::{Addresses, Parts, Server};
pub use settings::{CertificateWaits, Defaults, Limits, Settings};
pub use shutdown::{Phase, Shutdown};
pub use upstream::{LoadRoots, LoopId, unused_connections};
pub use virtual_host::{Made, Publisher, VirtualHost};
