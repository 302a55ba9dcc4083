//! Where hosts and their credentials live: the traits and their contracts.
//!
//! Each sentence of a contract has a test in `contract.rs`, a suite that every
//! store and every wrapper passes.

pub mod expect;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod sealed;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::credential::{CredentialId, Protected, SealedBytes, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::HostRecord;

/// A boxed future, as traits behind `dyn` need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a store call gives.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Answers names.
///
/// - **Absent is not failed.** [`Answer::Absent`] only if the store knows that
///   neither the name nor the wildcard above it is there. All else is an error.
/// - The exact pattern comes before the wildcard one label above, also when
///   the exact record is disabled or has no credential.
/// - One call reads one state: the record and the credentials that it refers
///   to, as one write left them. A reference to a credential that is not there
///   is [`StoreError::Corrupt`].
/// - Callable from any task of any runtime, concurrently; no future of a call
///   depends on which runtime polls it.
/// - A dropped future leaves nothing locked and nothing half-done.
/// - It never blocks the thread that polls it.
pub trait Store: Debug + Send + Sync + 'static {
    /// What answers for this name, in one round trip.
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>>;

    /// The same, but past a level before the store, whose answer could not be
    /// used. Where nothing stands before it, it is the same call.
    fn find_past_level<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        self.find(name)
    }
}

/// A store that is also written, listed, watched and leased.
///
/// - **A write is whole or not at all**, and durable when it returns.
/// - Each write transaction takes its change numbers last and holds the
///   counter until its commit: nobody who has seen a number sees a smaller one
///   appear later.
/// - The changes of a transaction carry a random mark of 64 bits, which is kept
///   as long as the change.
/// - A write whose [`Expect`] does not hold changes nothing and returns
///   [`StoreError::Conflict`].
/// - A credential whose last reference is dropped is deleted in the same
///   transaction. A reference to a credential that does not exist is a
///   conflict.
/// - Secrets are taken and given sealed; a plain one is
///   [`StoreError::Refused`].
/// - Sealing a secret again is no change: it takes no number, the version
///   stays, and nothing but the sealed bytes is replaced. It is left alone if
///   it has another version, or is sealed in another way, than was read.
/// - Lists are in the byte order of the pattern or the id, paged by key, and
///   may be read while others write: what stood there throughout is listed
///   exactly once.
pub trait Catalog: Store {
    /// Its identity, fixed when it was created. Sealed secrets are bound to it.
    /// A store elsewhere is asked for it once.
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>>;

    /// The log's identity and the number of its last change.
    fn position(&self) -> BoxFuture<'_, Result<LogPosition>>;

    /// At most `limit` changes behind number `after`, in order.
    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>>;

    /// Resolves when something may have changed since this future was made.
    /// It is a hint: it may resolve without a change, and callers also look
    /// on their own from time to time.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Applies all of it as one transaction; gives the number of its last
    /// change, or of the last before it if it changed nothing.
    fn write(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<u64>>;

    /// The records of exactly these patterns that exist, in no order.
    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>>;

    /// At most `limit` records behind `after`.
    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>>;

    /// At most `limit` patterns behind `after` whose records refer to that
    /// credential.
    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>>;

    /// The credentials of these ids that exist, in no order.
    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential>>>;

    /// At most `limit` credentials behind `after`.
    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential>>>;

    /// At most `limit` credentials with `renew_at` at or before that time
    /// (seconds since the Unix epoch), the most urgent first; through an
    /// index, never by a scan.
    fn due(&self, until: i64, limit: usize) -> BoxFuture<'_, Result<Vec<CredentialId>>>;

    /// One document; an expired one is not there.
    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>>>;

    /// At most `limit` unexpired documents of a kind behind the key `after`.
    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>>>;

    /// The first kind behind `after`, in the order of bytes, of which there
    /// are documents, expired ones too.
    fn kind_after<'a>(&'a self, after: &'a str) -> BoxFuture<'a, Result<Option<String>>>;

    /// Takes the lease for `ttl` if nobody else holds it, or prolongs the
    /// holder's own. None while another holds it. The token grows each time
    /// the holder changes, so that a late holder can be told apart.
    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>>;

    /// Gives the lease back, if this holder still has it.
    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// What a store says of a name.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Something answers.
    Found(Box<Found>),
    /// Neither the name nor a wildcard above it is there.
    Absent,
}

/// A record with the credentials that it refers to.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record, exact or wildcard.
    pub record: HostRecord,
    /// What it refers to, in no order.
    pub credentials: Vec<StoredCredential>,
    /// For a wildcard `*.b`: whether any exact record stands one label below
    /// `b`. A store that cannot list says true.
    pub shadowed: bool,
    /// How long a plain store vouches for it; none leaves it to the reader.
    pub fresh_for: Option<Duration>,
    /// Who gave it.
    pub source: Source,
}

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The store.
    Store,
    /// A level before it that follows its changes.
    Level,
    /// What it said before: it was asked and gave no answer.
    StandIn,
}

/// One operation of a write.
#[derive(Clone, Debug)]
pub enum Write {
    /// Stores a credential.
    PutCredential(StoredCredential, Expect),
    /// Stores a host record.
    PutHost(HostRecord, Expect),
    /// Removes a host record; removing an absent one under [`Expect::Any`]
    /// changes nothing.
    RemoveHost(HostPattern, Expect),
    /// Stores a document.
    PutDocument(Document, Expect),
    /// Removes a document, like a host.
    RemoveDocument {
        /// Its kind.
        kind: String,
        /// Its key in the kind.
        key: String,
        /// What must stand there.
        expect: Expect,
    },
    /// Changes nothing: the batch happens only if this document is as
    /// expected.
    Require {
        /// Its kind.
        kind: String,
        /// Its key in the kind.
        key: String,
        /// What must stand there.
        expect: Expect,
    },
    /// Puts another sealing of the same secret in the place of one. A catalog
    /// that seals by itself refuses it.
    Reseal(Reseal),
}

/// A secret that is sealed again.
#[derive(Clone, Debug)]
pub struct Reseal {
    /// Whose secret it is.
    pub of: SecretOf,
    /// The version that was read.
    pub version: u64,
    /// As it was read.
    pub from: SealedBytes,
    /// As it is to be.
    pub to: SealedBytes,
}

/// Where a sealed secret stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretOf {
    /// The key of a credential.
    Credential(CredentialId),
    /// The content of a document.
    Document {
        /// Its kind.
        kind: String,
        /// Its key in the kind.
        key: String,
    },
}

/// What must be there for an operation to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Any,
    /// Nothing may be there.
    Absent,
    /// Exactly this version.
    Version(u64),
}

/// Small sealed state that servers share: ticket keys, accounts, orders.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it is; fixed words of the program.
    pub kind: String,
    /// Which one of the kind.
    pub key: String,
    /// The content.
    pub bytes: Protected,
    /// When it is gone, seconds since the Unix epoch.
    pub expires: Option<i64>,
    /// The number of the change that wrote it; ignored by a write.
    pub version: u64,
}

/// A catalog's identity: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CatalogId(pub [u8; 16]);

/// A log's identity: new when the catalog is created or restored, so that
/// equal numbers of different logs are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Which log.
    pub log: LogId,
    /// The number of the last change; 0 before the first.
    pub number: u64,
    /// The random mark of that change; 0 before the first. A log that was
    /// restored from a snapshot and written again repeats numbers, not marks.
    pub mark: u64,
}

/// A piece of the log.
#[derive(Clone, Debug)]
pub struct ChangePage {
    /// Which log.
    pub log: LogId,
    /// The number of the log's last change when this was read.
    pub last: u64,
    /// Whether changes behind `after` are missing: too old to be kept, or
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

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Grows by one with each change.
    pub number: u64,
    /// What it is about.
    pub subject: Subject,
    /// What happened.
    pub what: What,
}

/// What a change is about. A new credential is not announced: nobody can have
/// loaded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A host record.
    Host(HostPattern),
    /// A credential, however many hosts refer to it.
    Credential(CredentialId),
    /// A document.
    Document {
        /// Its kind.
        kind: String,
        /// Its key in the kind.
        key: String,
    },
}

/// What happened to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was created or replaced.
    Put,
    /// It is gone.
    Removed,
}

/// The right to do something alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Grows each time the holder changes.
    pub token: u64,
    /// When it ends, milliseconds since the Unix epoch by the store's clock.
    pub expires_ms: i64,
}

/// Why a store gave no answer. Cheap to clone: all who wait share it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It can't be reached or broke off.
    #[error("the store is unavailable: {0}")]
    Unavailable(Arc<str>),
    /// It did not answer in time.
    #[error("the store did not answer within {0:?}")]
    TimedOut(Duration),
    /// This call failed, but the store answers others: a client picks the
    /// host, and no host may shut the store off for all.
    #[error("the store failed on this call: {0}")]
    Failed(Arc<str>),
    /// As many calls as may be are in flight and waiting.
    #[error("too many calls to the store are in flight")]
    Overloaded,
    /// What is stored can't be used; says what and where.
    #[error("{0}")]
    Corrupt(Arc<str>),
    /// Something else stands there than was expected; says what.
    #[error("{0}")]
    Conflict(Arc<str>),
    /// This store does not take such input; says why.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody's help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::TimedOut(_) | Self::Failed(_) | Self::Overloaded
        )
    }
}
