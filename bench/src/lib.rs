//! The load generator, a server under test and what reads its costs, for the comparison with
//! peers and for the tests of the whole system.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "of use to this workspace alone")]

pub mod accounting;
pub mod load;
pub mod metrics;
mod open;
pub mod server;
pub mod table;
pub mod tls;

pub use self::open::open_catalog;
