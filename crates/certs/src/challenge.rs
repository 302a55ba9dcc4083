//! Challenges of certificate authorities (RFC 8555, section 8): who answers one
//! proves control of a name.
//!
//! A challenge is a document of the catalog that is not announced: any server
//! answers one that another server was given.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::credential::Secret;
use crate::lock::lock;
use crate::metrics::{Counter, Counters, Registry};
use crate::seal::Sealer;
use crate::store::{
    BoxFuture, Document, DocumentId, DocumentKind, Precondition, Result, StoreError, Write,
};

/// Answers to challenges: those that this server was given, and those of HTTP-01 that
/// it has read, are in memory until they expire.
#[derive(Debug)]
pub struct Challenges {
    source: Arc<dyn ChallengeSource>,
    clock: Clock,
    known: Mutex<HashMap<DocumentId, Known>>,
    reads: Reads,
}

/// Texts of DNS-01 by name, which is in lower case with its last dot.
pub type Texts = HashMap<String, Vec<String>>;

/// Counters of reads of the source.
#[derive(Debug, Default)]
struct Reads {
    found: Counter,
    absent: Counter,
    failed: Counter,
}

/// Reader of the challenges that other servers were given.
///
/// A [`Sealer`] reads its catalog without bounds of its own. What serves clients
/// puts the deadline and the circuit breaker of its lookups before it.
pub trait ChallengeSource: Debug + Send + Sync + 'static {
    /// Reads a document and opens it; none if it is not there.
    fn challenge<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<Secret>>>>;

    /// Lists the challenges of [`ChallengeKind::Dns01`] that are there: of more than 100,000
    /// those whose names come first.
    fn texts(&self) -> BoxFuture<'_, Result<Texts>>;
}

impl ChallengeSource for Sealer {
    fn challenge<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<Secret>>>> {
        Box::pin(self.document(id))
    }

    fn texts(&self) -> BoxFuture<'_, Result<Texts>> {
        Box::pin(async move {
            let (kind, mut texts) = (DocumentKind::DNS_01, Texts::new());
            let mut after: Option<String> = None;
            for _ in 0..MOST_PAGES {
                let page = self.catalog().list_documents(&kind, after.as_deref(), PAGE);
                let page = page.await?;
                let last = page.last().filter(|_| page.len() == PAGE);
                after = last.map(|last| last.id.key.to_string());
                for stored in page {
                    match self.open_document(stored).await {
                        // The seal vouches for the key, too.
                        Ok(document) => {
                            if let Some((name, text)) = document.id.key.split_once(' ') {
                                let of_name = texts.entry(name.to_owned()).or_default();
                                of_name.push(text.to_owned());
                            }
                        }
                        // An unreadable text must not keep the others from being answered.
                        Err(StoreError::Corrupt(why)) => tracing::debug!(%why, "text left out"),
                        Err(error) => return Err(error),
                    }
                }
                if after.is_none() {
                    break;
                }
            }
            Ok(texts)
        })
    }
}

impl Challenges {
    /// Answers from this sealer's catalog.
    #[must_use]
    pub fn new(sealer: Sealer, clock: Clock) -> Self {
        Self::of(Arc::new(sealer), clock)
    }

    /// Answers from this source.
    #[must_use]
    pub fn of(source: Arc<dyn ChallengeSource>, clock: Clock) -> Self {
        Self {
            source,
            clock,
            known: Mutex::default(),
            reads: Reads::default(),
        }
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        let reads = Counters {
            label: "outcome",
            each: [
                ("found", self.reads.found.clone()),
                ("absent", self.reads.absent.clone()),
                ("failed", self.reads.failed.clone()),
            ],
        };
        let help = "Reads of the catalog for challenges that this server was not given, by outcome";
        registry.register("challenge_reads", help, reads);
    }

    /// Returns the operation that tells the other servers of a challenge for `key`, a token
    /// or a host name. `expires` is in seconds since the Unix epoch. The operation conflicts
    /// if the precondition does not hold for the challenge that is there.
    #[must_use]
    pub fn write(
        kind: ChallengeKind,
        key: &str,
        answer: &KeyAuthorization,
        expires: i64,
        expected: Precondition,
    ) -> Write<Secret> {
        let bytes = Secret::new(answer.as_str().into());
        let mut document = Document::new(id(kind, key), bytes);
        document.expires = Some(expires);
        Write::PutDocument(document, expected)
    }

    /// Remembers a challenge that was written, but for one of DNS-01: nobody asks for these by
    /// key, and orders with many names would take the room of others.
    pub fn keep(&self, kind: ChallengeKind, key: &str, answer: KeyAuthorization, expires: i64) {
        if kind != ChallengeKind::Dns01 {
            self.remember(id(kind, key), Known { answer, expires });
        }
    }

    /// Reads the challenge that the catalog has for `key`: its answer, and when it
    /// expires.
    ///
    /// # Errors
    /// As [`ChallengeSource::challenge`].
    pub async fn stored(
        &self,
        kind: ChallengeKind,
        key: &str,
    ) -> Result<Option<(KeyAuthorization, Option<i64>)>> {
        let document = self.source.challenge(&id(kind, key)).await?;
        Ok(document.map(|document| {
            let text = String::from_utf8_lossy(document.bytes.expose());
            (KeyAuthorization::new(&text), document.expires)
        }))
    }

    /// Forgets a challenge, and returns the operation that removes it from the
    /// catalog. Servers that have read it answer it until it expires.
    #[must_use = "only the write removes it from the catalog"]
    pub fn remove(&self, kind: ChallengeKind, key: &str) -> Write<Secret> {
        let id = id(kind, key);
        lock(&self.known).remove(&id);
        Write::RemoveDocument(id, Precondition::Any)
    }

    /// Forgets a challenge in memory alone: another server may be given one for the
    /// same name.
    pub fn forget(&self, kind: ChallengeKind, key: &str) {
        lock(&self.known).remove(&id(kind, key));
    }

    /// Returns the answer that is in memory.
    #[must_use]
    pub fn own(&self, kind: ChallengeKind, key: &str) -> Option<KeyAuthorization> {
        let known = lock(&self.known);
        let found = known.get(&id(kind, key))?;
        (found.expires > self.clock.now()).then(|| found.answer.clone())
    }

    /// Returns the answer from memory, else from the catalog; none if there is no
    /// such challenge. An absence is not remembered: callers bound how often a
    /// client may ask.
    ///
    /// # Errors
    /// As [`ChallengeSource::challenge`]; [`StoreError::Corrupt`] for an answer that is no
    /// text.
    pub async fn answer(&self, kind: ChallengeKind, key: &str) -> Result<Option<KeyAuthorization>> {
        let own = self.own(kind, key);
        // No CA asks for such a key, and not every database takes any text.
        if own.is_some() || key.len() > MAX_KEY || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(own);
        }
        let id = id(kind, key);
        let read = self.source.challenge(&id).await;
        self.reads.count(&read);
        let Some(document) = read? else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(document.bytes.expose()) else {
            return Err(StoreError::Corrupt(format!("{id} is no text").into()));
        };
        let answer = KeyAuthorization::new(text);
        if let (Some(expires), Some(repeats)) = (document.expires, kind.repeats()) {
            let answer = answer.clone();
            let expires = expires.min(self.clock.now() + repeats);
            self.remember(id, Known { answer, expires });
        }
        Ok(Some(answer))
    }

    /// Makes room by dropping what has expired, else what expires first.
    fn remember(&self, id: DocumentId, new: Known) {
        let mut known = lock(&self.known);
        if known.len() >= MAX_KNOWN {
            let now = self.clock.now();
            known.retain(|_, one| one.expires > now);
        }
        if known.len() >= MAX_KNOWN {
            let first = known.iter().min_by_key(|(_, one)| one.expires);
            let first = first.map(|(id, _)| id.clone());
            first.and_then(|id| known.remove(&id));
        }
        known.insert(id, new);
    }
}

impl Reads {
    fn count<T>(&self, read: &Result<Option<T>>) {
        match read {
            Ok(Some(_)) => self.found.inc(),
            Ok(None) => self.absent.inc(),
            Err(_) => self.failed.inc(),
        };
    }
}

#[derive(Debug)]
struct Known {
    answer: KeyAuthorization,
    /// Seconds since the Unix epoch.
    expires: i64,
}

/// Challenges that a server answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By host name, in a handshake (RFC 8737).
    TlsAlpn01,
    /// By token, over plain HTTP (RFC 8555, section 8.3).
    Http01,
    /// By name and text with a space between, in a zone that servers answer for (RFC 8555,
    /// section 8.4): several texts of one name do not disturb each other.
    Dns01,
}

impl ChallengeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TlsAlpn01, Self::Http01, Self::Dns01];

    /// Returns the seconds for which one server's challenge answers at another without
    /// a look at the catalog; none if each handshake needs one. A token is used once. A
    /// host's name has another challenge with each order: RFC 8737, section 3, makes the
    /// answer of the order before it a failed validation, which counts at the CA.
    const fn repeats(self) -> Option<i64> {
        match self {
            Self::TlsAlpn01 | Self::Dns01 => None,
            Self::Http01 => Some(3600),
        }
    }

    /// Returns the kind of the documents.
    #[must_use]
    pub const fn document(self) -> DocumentKind {
        match self {
            Self::TlsAlpn01 => DocumentKind::TLS_ALPN_01,
            Self::Http01 => DocumentKind::HTTP_01,
            Self::Dns01 => DocumentKind::DNS_01,
        }
    }
}

/// Token with the thumbprint of the account's key (RFC 8555, section 8.1).
#[derive(Clone, PartialEq, Eq)]
pub struct KeyAuthorization(Arc<str>);

impl KeyAuthorization {
    /// Takes the text over.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyAuthorization(…)")
    }
}

fn id(kind: ChallengeKind, key: &str) -> DocumentId {
    DocumentId::new(kind.document(), key.to_owned())
}

/// Answers in memory, some 300 bytes each. A cluster has fewer orders in flight.
const MAX_KNOWN: usize = 4096;
/// A host name's. Tokens of CAs have 43 bytes.
const MAX_KEY: usize = 253;
/// Texts that are read at once, some MiB, and how often. An order has 100 names at most, and
/// what a killed server leaves is there for two days.
const PAGE: usize = 10_000;
const MOST_PAGES: usize = 10;
