//! Where do hosts and their credentials live? The stores behind
//! [`sekisho_certs::Store`] and [`sekisho_certs::Catalog`], and what stands
//! between them and the lookup.
//!
//! `sqlite` and `files` are always there; `postgres`, `redis` and `http` are
//! features, on by default.

#![deny(unsafe_code)]

pub mod announced;
pub mod backoff;
mod breaker;
mod catalog_row;
#[cfg(test)]
#[cfg(all(feature = "http", feature = "postgres", feature = "redis"))]
mod contract;
pub mod disk_cache;
mod fault;
pub mod files;
#[cfg(feature = "http")]
pub mod http;
mod lineage_row;
mod lists;
mod log_row;
mod open;
mod options;
pub mod own_file;
mod pem_pair;
mod place;
mod plan;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod reconnecting;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod redis_cache;
pub mod sqlite;
pub mod stored;
mod template;
mod threads;
pub mod tiers;
mod upgrade;
pub mod url;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod url_parts;
pub mod worker;

pub use open::{OpenStore, exists, open, probe, upgrade};
pub use options::{Mode, Options};
pub use url::Url;
