//! A catalog under test, and small things to store in it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustls_pki_types::CertificateDer;

use crate::clock::Clock;
use crate::credential::{CredentialId, KeyType, Protected, SealedBytes, Secret, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::{HostRecord, Tenant};
use crate::seal::{KeyRing, MasterKey};
use crate::store::memory::Memory;
use crate::store::sealed::Sealed;
use crate::store::{Answer, BoxFuture, Catalog, Document, Expect, Found, Store, Write};

/// A catalog under test.
pub struct Fixture {
    /// It keeps [`Fixture::KEEP`] changes.
    pub catalog: Arc<dyn Catalog>,
    /// Its clock, in milliseconds.
    pub clock: Arc<AtomicI64>,
    /// Whether it takes secrets sealed, or plain as a wrapper does.
    pub sealed: bool,
    /// What must live as long: a folder, say.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    /// Builds a fixture over an empty catalog in memory.
    #[must_use]
    pub fn memory() -> Self {
        let (clock, hand) = Self::clock();
        Self {
            catalog: Arc::new(Memory::keeping(clock, Self::KEEP)),
            clock: hand,
            sealed: true,
            keep: Box::new(()),
        }
    }

    /// Seals what the catalog takes, under a fixed master key.
    pub async fn sealing(self) -> Self {
        let ring = KeyRing::new(MasterKey::new(&[5; 32]));
        let catalog = Sealed::create(self.catalog, ring).await.unwrap();
        Self {
            catalog: Arc::new(catalog),
            sealed: false,
            ..self
        }
    }

    /// How many changes the catalog keeps.
    pub const KEEP: u64 = 200;

    /// A clock for a catalog, and the hand that moves it.
    #[must_use]
    pub fn clock() -> (Clock, Arc<AtomicI64>) {
        let hand = Arc::new(AtomicI64::new(1_800_000_000_000));
        (Clock::Manual(Arc::clone(&hand)), hand)
    }

    /// Moves the catalog's clock.
    pub fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// The catalog's time, in seconds.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst) / 1000
    }

    /// A secret as the catalog takes it.
    #[must_use]
    pub fn secret(&self, bytes: &[u8]) -> Protected {
        match self.sealed {
            true => sealed(bytes),
            false => plain(bytes),
        }
    }

    /// A new ECDSA credential.
    #[must_use]
    pub fn credential(&self) -> StoredCredential {
        self.credential_of(KeyType::Ecdsa)
    }

    /// A new credential with a certificate of its own.
    #[must_use]
    pub fn credential_of(&self, key_type: KeyType) -> StoredCredential {
        // Ids must not collide within a test: no random ones.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        StoredCredential {
            id: CredentialId::from_u64(number),
            version: 0,
            key_type,
            chain: vec![certificate(number), certificate(0)],
            key: self.secret(&number.to_be_bytes()),
            not_before: self.now(),
            not_after: self.now() + 86_400,
            renew_at: None,
        }
    }

    /// A document as the catalog takes it.
    #[must_use]
    pub fn document(&self, kind: &str, key: &str, bytes: &[u8]) -> Document {
        Document {
            kind: kind.to_owned(),
            key: key.to_owned(),
            bytes: self.secret(bytes),
            expires: None,
            version: 0,
        }
    }

    /// Stores a host with a credential of its own; gives its id.
    pub async fn put(&self, name: &str) -> CredentialId {
        let credential = self.credential();
        let id = credential.id;
        let record = record(name, &[(KeyType::Ecdsa, id)]);
        let writes = vec![
            Write::PutCredential(credential, Expect::Absent),
            Write::PutHost(record, Expect::Any),
        ];
        self.catalog.write(writes).await.unwrap();
        id
    }

    /// What answers for a name.
    pub async fn find(&self, name: &str) -> Option<Found> {
        let name = HostName::parse(name).unwrap();
        match self.catalog.find(&name).await.unwrap() {
            Answer::Found(found) => Some(*found),
            Answer::Absent => None,
        }
    }

    /// One record.
    pub async fn host(&self, name: &str) -> Option<HostRecord> {
        self.catalog.hosts(&[pattern(name)]).await.unwrap().pop()
    }

    /// Whether a credential exists.
    pub async fn has(&self, id: CredentialId) -> bool {
        !self.catalog.credentials(&[id]).await.unwrap().is_empty()
    }

    /// The number of the last change.
    pub async fn number(&self) -> u64 {
        self.catalog.position().await.unwrap().number
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.catalog.fmt(f)
    }
}

/// A store under test, that may only be read.
pub struct Names {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Makes a pattern answer, with a credential.
    pub put: Put,
}

/// Makes a pattern answer.
pub type Put = Box<dyn Fn(&str) -> BoxFuture<'static, ()> + Send + Sync>;

impl Names {
    /// The pattern that answers for a name.
    pub async fn answering(&self, name: &str) -> Option<HostPattern> {
        let name = HostName::parse(name).unwrap();
        match self.store.find(&name).await.unwrap() {
            Answer::Found(found) => {
                assert_eq!(found.credentials.len(), 1);
                Some(found.record.pattern)
            }
            Answer::Absent => None,
        }
    }
}

impl From<Fixture> for Names {
    fn from(fixture: Fixture) -> Self {
        let fixture = Arc::new(fixture);
        Self {
            store: Arc::clone(&fixture.catalog) as Arc<dyn Store>,
            put: Box::new(move |name| {
                let (fixture, name) = (Arc::clone(&fixture), name.to_owned());
                Box::pin(async move {
                    fixture.put(&name).await;
                })
            }),
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

/// A parsed pattern.
#[must_use]
pub fn pattern(name: &str) -> HostPattern {
    HostPattern::parse(name).unwrap()
}

/// A record with references.
#[must_use]
pub fn record(name: &str, references: &[(KeyType, CredentialId)]) -> HostRecord {
    let mut record = HostRecord::new(pattern(name));
    for (key_type, id) in references {
        record.references.set(*key_type, Some(*id));
    }
    record
}

/// A record of a tenant, without a credential.
#[must_use]
pub fn record_of(name: &str, tenant: &str) -> HostRecord {
    let mut record = record(name, &[]);
    record.tenant = Tenant::parse(tenant).unwrap();
    record
}

/// A write that stores a record, whatever is there.
#[must_use]
pub fn put_host(record: HostRecord) -> Write {
    Write::PutHost(record, Expect::Any)
}

/// Writes a host with a credential of that number.
#[must_use]
pub fn host_with(name: &str, number: u64) -> Vec<Write> {
    let id = CredentialId::from_u64(number);
    let credential = StoredCredential {
        id,
        version: 0,
        key_type: KeyType::Ecdsa,
        chain: vec![certificate(number), certificate(0)],
        key: sealed(&number.to_be_bytes()),
        not_before: 0,
        not_after: 1,
        renew_at: None,
    };
    let host = record(name, &[(KeyType::Ecdsa, id)]);
    vec![
        Write::PutCredential(credential, Expect::Any),
        put_host(host),
    ]
}

/// Sealed bytes that nobody can open.
#[must_use]
pub fn sealed(bytes: &[u8]) -> Protected {
    Protected::Sealed(SealedBytes {
        key_id: 7,
        nonce: [9; 12],
        bytes: bytes.to_vec(),
    })
}

/// Bytes in the clear.
#[must_use]
pub fn plain(bytes: &[u8]) -> Protected {
    Protected::Plain(Secret::new(bytes.to_vec()))
}

/// Whether two secrets are the same bytes, both sealed or both in the clear.
#[must_use]
pub fn same(one: &Protected, other: &Protected) -> bool {
    match (one, other) {
        (Protected::Sealed(one), Protected::Sealed(other)) => one == other,
        _ => one.secret().is_some() && one.secret() == other.secret(),
    }
}

/// The least that has a certificate's form, with a public key of its own.
#[must_use]
pub fn certificate(number: u64) -> CertificateDer<'static> {
    let number = number.to_be_bytes();
    let time = element(0x17, b"250101000000Z");
    let key = element(0x03, &[&[0][..], &number].concat());
    let tbs = [
        element(0x02, &number),
        element(0x30, &[]),
        element(0x30, &[]),
        element(0x30, &[time.clone(), time].concat()),
        element(0x30, &[]),
        element(0x30, &[element(0x30, &[]), key].concat()),
    ];
    let parts = [
        element(0x30, &tbs.concat()),
        element(0x30, &[]),
        element(0x03, &[0]),
    ];
    element(0x30, &parts.concat()).into()
}

fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = u8::try_from(contents.len()).unwrap();
    assert!(length < 0x80, "only the short form of lengths is built");
    [&[tag, length], contents].concat()
}
