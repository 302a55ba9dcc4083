//! Stores of hosts and credentials: the traits and their contracts.
//!
//! Each sentence of a contract has a test in `contract.rs` of the crate testkit, a suite
//! that every store and every wrapper passes.

mod document;
mod error;
mod follower;
mod list;
pub mod precondition;
mod seen;
mod write;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use crate::record::{HostRecord, Tenant};
use crate::seal::{Batch, OpenKey};

pub use self::document::{Document, DocumentId, DocumentKind};
pub use self::error::StoreError;
pub use self::follower::{FeedState, Follower};
pub use self::list::{
    CredentialFilter, CredentialPage, HostFilter, HostPage, names_below, reversed,
};
pub use self::seen::{Noted, Seen};
pub use self::write::{Precondition, Reseal, SecretOf, Write};

/// A boxed future, as traits behind `dyn` need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Answers names for the lookup.
///
/// - **Absent is not failed.** An answer without a record only if the store
///   knows that neither the name nor the wildcard above it is there. All else
///   is an error.
/// - The exact pattern comes before the wildcard one label above, also when
///   the exact record is disabled or has no credential.
/// - One call reads one state: the record and the credentials that it refers
///   to, as one write left them. A reference to a credential that is not there
///   is [`StoreError::Corrupt`].
/// - Callable from any task of any runtime, concurrently; no future of a call
///   depends on which runtime polls it.
/// - A dropped future leaves nothing locked and nothing half-done.
/// - A call never blocks the thread that polls it.
pub trait Store: Debug + Send + Sync + 'static {
    /// Finds what answers for this name, in one round trip.
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>>;
}

/// Tells what changed in a catalog, in order.
///
/// - Each write transaction that takes numbers locks the counter first and holds
///   it until its commit: nobody who has seen a number sees a smaller one appear
///   later.
/// - The changes of a transaction carry a random mark of 64 bits, which is kept
///   as long as the change.
pub trait ChangeLog: Debug + Send + Sync + 'static {
    /// Reads the log's identity and the number of its last change.
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>>;

    /// Reads at most `limit` changes behind number `after`, in order.
    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>>;

    /// Resolves when something may have changed since this future was made.
    /// That is a hint: it may resolve without a change, and callers also look
    /// on their own from time to time.
    fn changed(&self) -> BoxFuture<'_, ()>;
}

/// Holds hosts, credentials, documents and lineages; is written, listed and
/// watched. Its secrets are sealed: a [`Sealer`] seals what is written and
/// opens what is read.
///
/// - [`Catalog::find`] answers names under the contract of [`Store`].
/// - **A write is whole or not at all**, and durable when it returns.
/// - A write whose [`Precondition`] does not hold changes nothing and returns
///   [`StoreError::Conflict`]. Of several that found the same subject absent, or of
///   the same version, one succeeds.
/// - A credential whose last reference is dropped is deleted in the same
///   transaction. A reference to a credential that does not exist is a
///   conflict.
/// - Sealing a secret again is no change: it takes no number, the version
///   stays, and nothing but the sealed bytes is replaced. The secret is left
///   alone if it has another version, or is sealed in another way, than was
///   read.
/// - Neither lineages nor claims nor documents that are not announced
///   ([`DocumentKind::is_announced`]) are changes of the log: a batch of them
///   alone takes no number.
/// - An origin whose version is 0 is stored, with the version that the write gives.
///   One of another version, or none, is not, and what was there ends: a read returns
///   an origin only if its version is the record's. Sealing again keeps it.
/// - Lists are in the byte order of the pattern or the id, paged by key, and
///   may be read while others write: what stood there throughout is listed
///   exactly once. Hosts may be in the order of their names
///   ([`HostFilter::is_by_name`]).
/// - A page of hosts or credentials takes at most `limit` rows, of which the filter
///   may admit none: only a page without `next` is the last.
///
/// [`Sealer`]: crate::seal::Sealer
pub trait Catalog: ChangeLog {
    /// Reads the catalog's identity, fixed when it was created. Sealed secrets
    /// are bound to it. A catalog elsewhere is asked for it once.
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>>;

    /// Finds what answers for this name, in one round trip.
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>>;

    /// Applies all of it as one transaction; gives the number of its last
    /// change, or of the last before it if it changed nothing.
    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>>;

    /// Returns the records of exactly these patterns that exist, in no order.
    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>>;

    /// Lists the hosts after `after` that this filter admits.
    fn list_hosts<'a>(
        &'a self,
        filter: &'a HostFilter,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<HostPage>>;

    /// Lists at most `limit` tenants that have hosts, each once, those after `after`. The
    /// operator's empty name comes first. A name that can't be read is an error.
    fn tenants<'a>(
        &'a self,
        after: Option<&'a Tenant>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Tenant>>>;

    /// Lists at most `limit` patterns behind `after` whose records refer to
    /// that credential.
    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>>;

    /// Returns the credentials of these ids that exist, in no order.
    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>>;

    /// Lists the credentials after `after` that this filter admits, in the order that the
    /// filter names.
    fn list_credentials<'a>(
        &'a self,
        filter: &'a CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CredentialPage>>;

    /// Reads a document; an expired one is not there.
    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>>;

    /// Lists at most `limit` unexpired documents of a kind behind the key
    /// `after`.
    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>>;

    /// Finds the first kind behind `after`, in the order of bytes, of which there
    /// are documents, expired ones too.
    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>>;

    /// Claims lineages for `ttl`, and returns those that this holder has got, in
    /// the order of their turns. What another has claimed is left out.
    ///
    /// - Of those that are due, only unclaimed ones are taken. One for which the holder's
    ///   [`Able`](crate::lineage::Able) does not suffice is left to others for
    ///   [`UNTAKEN`](crate::lineage::UNTAKEN). If more than
    ///   [`MAX_CANDIDATES`](crate::lineage::MAX_CANDIDATES) are due, the order
    ///   holds among that many which have been due longest and as many with the
    ///   smallest turns, of which others pass
    ///   [`MAX_PASSED_OVER`](crate::lineage::MAX_PASSED_OVER) that are not due at most.
    /// - Named ones of the holder's own are prolonged and keep their epoch.
    /// - A claim ends by the store's clock, or with a write that releases it.
    fn claim<'a>(
        &'a self,
        which: ToClaim,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Vec<(LineageName, Claim)>>>;

    /// Returns the lineages of these names that exist, in no order.
    fn lineages<'a>(
        &'a self,
        names: &'a [LineageName],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>>;

    /// Returns the lineages whose present credentials these are, in no order.
    fn lineages_of<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>>;

    /// Lists at most `limit` lineages behind `after`, by their names.
    fn list_lineages<'a>(
        &'a self,
        which: Listed,
        after: Option<&'a LineageName>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>>;

    /// Counts the lineages; more than 10,000 may be estimated. It may scan an index of
    /// them: a server asks about once an hour.
    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>>;

    /// Counts the lineages that are due, up to `most`.
    fn count_due(&self, most: usize) -> BoxFuture<'_, Result<u64>>;
}

/// Answer of a store about a name. `K` is the form of the keys: [`OpenKey`] for
/// the lookup, [`SealedBytes`] from a catalog.
#[derive(Clone, Debug)]
pub struct Answer<K> {
    /// State that was read, for an absence too; none from a store without a
    /// change log.
    pub read_at: Option<ReadAt>,
    /// Record that answers; none if neither the name nor a wildcard above it is
    /// there.
    pub found: Option<Box<Found<K>>>,
    /// True if a cache answered because the store could not (stale-if-error,
    /// RFC 5861).
    pub is_stale: bool,
}

impl<K> Answer<K> {
    /// Makes an answer of a record.
    #[must_use]
    pub fn found(found: impl Into<Box<Found<K>>>) -> Self {
        Self {
            found: Some(found.into()),
            ..Self::absent()
        }
    }

    /// Makes an answer without a record.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            read_at: None,
            found: None,
            is_stale: false,
        }
    }
}

/// A record with the credentials that it refers to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found<K> {
    /// The record, exact or wildcard.
    pub record: HostRecord,
    /// Credentials that the record refers to, in no order.
    pub credentials: Vec<StoredCredential<K>>,
    /// For a wildcard `*.b`: whether any exact record stands one label below
    /// `b`. A store that cannot list says true.
    pub shadowed: bool,
    /// How long a plain store vouches for it; none leaves it to the reader.
    #[serde(skip)]
    pub fresh_for: Option<Duration>,
}

/// A catalog's identity: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CatalogId(pub [u8; 16]);

/// A log's identity: new when the catalog is created or restored, so that
/// equal numbers of different logs are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

/// Position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Identity of the log.
    pub log: LogId,
    /// The number of the last change; 0 before the first.
    pub number: u64,
    /// The random mark of that change; 0 before the first. A log that was
    /// restored from a snapshot and written again repeats numbers, not marks.
    pub mark: u64,
}

/// State of a catalog that an answer was read from. It lacks the mark, since
/// each uncached handshake would read that from the log's last row and nothing
/// compares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// Identity of the log.
    pub log: LogId,
    /// The number of the last change in that state; 0 before the first.
    pub number: u64,
}

impl From<LogPosition> for ReadAt {
    fn from(LogPosition { log, number, .. }: LogPosition) -> Self {
        Self { log, number }
    }
}

/// Page of the log.
#[derive(Clone, Debug)]
pub struct ChangePage {
    /// Identity of the log.
    pub log: LogId,
    /// The number of the log's last change when this was read.
    pub last: u64,
    /// True if changes behind `after` are missing: too old to be kept, or
    /// `after` lies beyond the log's end. The reader then trusts nothing that
    /// it remembers.
    pub gap: bool,
    /// The mark of the change with the number `after`; none if it is not kept.
    pub mark_before: Option<u64>,
    /// The mark of the last of `changes`; none if there are none.
    pub mark_last: Option<u64>,
    /// In the order of their numbers.
    pub changes: Vec<Change>,
}

/// Entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Grows by one with each change.
    pub number: u64,
    /// Subject of the change.
    pub subject: Subject,
    /// Event that the change announces.
    pub what: What,
}

/// Subject of a change. A new credential is not announced: no server can have
/// loaded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A host record.
    Host(HostPattern),
    /// A credential, announced once for all hosts that refer to it.
    Credential(CredentialId),
    /// A document.
    Document(DocumentId),
}

/// Event of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The subject was created or replaced.
    Put,
    /// The subject is gone.
    Removed,
}
