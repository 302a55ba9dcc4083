//! Certificates: what answers this name?
//!
//! Data flows one way. A [`HostName`] enters [`lookup`], passes the [`cache`],
//! and joins or starts a load. The load reads a [`store`] and makes of the
//! stored [`credential`]s what a handshake needs. The [`feed`] carries changes
//! back into the cache. This crate knows no ACME and no server.

#![deny(unsafe_code)]

pub mod cache;
pub mod challenge;
mod child;
pub mod clock;
pub mod credential;
pub mod der;
pub mod feed;
pub mod hook;
pub mod host;
mod lease;
pub mod lineage;
pub mod loaded;
mod lock;
pub mod log;
mod log_limiter;
pub mod lookup;
pub mod metrics;
pub mod obtain;
pub mod origin;
mod prefix;
mod printable;
mod random;
pub mod record;
pub mod seal;
pub mod store;

pub use cache::{Absence, Published, Served, Usage};
pub use challenge::{ChallengeKind, ChallengeSource, Challenges, KeyAuthorization, Texts};
pub use child::with_all_signals;
pub use clock::Clock;
pub use credential::{ClientCa, CredentialId, KeyType, SealedBytes, Secret, StoredCredential};
pub use feed::{DocumentEvent, Documents, Feed};
pub use host::{HostName, HostPattern, NameError};
pub use lease::Lease;
pub use lineage::{Able, Claim, Fence, LastError, Lineage, LineageName, Listed, ToClaim, Wishes};
pub use loaded::{LoadedCredential, LoadedHost};
pub use lock::lock;
pub use log_limiter::LogLimiter;
pub use lookup::{
    AnyWait, Cached, Lookup, LookupError, LookupSettings, LookupStats, Outcome, Progress, Wait,
};
pub use obtain::{NeverObtain, Obtain, Obtained};
pub use origin::Origin;
pub use prefix::Prefix;
pub use printable::printable;
pub use random::random;
pub use record::{HostRecord, References, Site, Tenant, TlsPolicy, TlsVersion};
pub use seal::{Batch, OpenKey, Sealer};
pub use store::{
    Answer, Catalog, ChangeLog, CredentialFilter, FeedState, Follower, Found, HostFilter, Noted,
    Seen, Store, StoreError,
};
