//! What answers this name?
//!
//! Data flows one way: a [`HostName`] enters [`lookup`], passes the [`cache`],
//! joins or starts a load, which reads a [`store`] and makes of the stored
//! [`credential`]s what a handshake needs. The [`feed`] carries changes back
//! into the cache. This crate knows no HTTP, no ACME and no server.

pub mod clock;
pub mod credential;
mod der;
pub mod host;
pub mod record;
pub mod store;

pub use clock::Clock;
pub use credential::{CredentialId, KeyType, Protected, SealedBytes, Secret, StoredCredential};
pub use host::{HostName, HostPattern, NameError};
pub use record::{HostRecord, References, Site, Tenant, TlsPolicy};
pub use store::{Answer, Catalog, Found, Store, StoreError};
