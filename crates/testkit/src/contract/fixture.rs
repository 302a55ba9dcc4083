//! A catalog under test, and small things to store in it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustls_pki_types::CertificateDer;

use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{
    ClientCa, CredentialId, KeyType, SealedBytes, Secret, StoredCredential,
};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::{HostRecord, Tenant};
use sekisho_certs::seal::{Batch, OpenKey};
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CredentialFilter, Document, DocumentId, Found, HostFilter,
    Precondition, Result, Store, Write,
};

/// A catalog under test.
pub struct Fixture {
    /// Catalog that keeps [`Fixture::KEEP`] changes.
    pub catalog: Arc<dyn Catalog>,
    /// Its clock, in milliseconds.
    pub clock: Arc<AtomicI64>,
    /// Values that must live as long, such as a folder.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    /// How many changes the catalog keeps.
    pub const KEEP: u64 = 200;

    /// A clock for a catalog, and the time that it tells.
    #[must_use]
    pub fn clock() -> (Clock, Arc<AtomicI64>) {
        let now = Arc::new(AtomicI64::new(1_800_000_000_000));
        (Clock::Manual(Arc::clone(&now)), now)
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

    /// A new ECDSA credential.
    #[must_use]
    pub fn credential(&self) -> StoredCredential<SealedBytes> {
        self.credential_of(KeyType::Ecdsa)
    }

    /// A new credential with a certificate of its own.
    #[must_use]
    pub fn credential_of(&self, key_type: KeyType) -> StoredCredential<SealedBytes> {
        // Ids must not collide within a test: no random ones.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        StoredCredential {
            id: CredentialId::from_u64(number),
            version: 0,
            key_type,
            chain: vec![certificate(number), certificate(0)],
            key: sealed(&number.to_be_bytes()),
            not_before: self.now(),
            not_after: self.now() + 86_400,
            origin: None,
        }
    }

    /// Makes a document as the catalog takes it.
    #[must_use]
    pub fn document(
        &self,
        kind: &'static str,
        key: &'static str,
        bytes: &[u8],
    ) -> Document<SealedBytes> {
        Document::new(DocumentId::new(kind, key), sealed(bytes))
    }

    /// Stores a host with a credential of its own; gives its id.
    pub async fn put(&self, name: &str) -> CredentialId {
        let credential = self.credential();
        let id = credential.id;
        let record = record(name, &[(KeyType::Ecdsa, id)]);
        let writes = vec![
            Write::PutCredential(credential, Precondition::Absent),
            Write::PutHost(record, Precondition::Any),
        ];
        self.catalog.write(Batch::unchecked(writes)).await.unwrap();
        id
    }

    /// Finds what answers for a name.
    pub async fn find(&self, name: &str) -> Option<Found<SealedBytes>> {
        let name = HostName::parse(name).unwrap();
        let answer = self.catalog.find(&name).await.unwrap();
        answer.found.map(|found| *found)
    }

    /// Reads a record.
    pub async fn host(&self, name: &str) -> Option<HostRecord> {
        self.catalog.hosts(&[pattern(name)]).await.unwrap().pop()
    }

    /// Tells whether a credential exists.
    pub async fn has(&self, id: CredentialId) -> bool {
        !self.catalog.credentials(&[id]).await.unwrap().is_empty()
    }

    /// The number of the last change.
    pub async fn number(&self) -> u64 {
        self.catalog.head().await.unwrap().number
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.catalog.fmt(f)
    }
}

/// A client CA of one certificate, whose bytes are `fill`.
#[must_use]
pub fn client_ca(fill: u8) -> Arc<ClientCa> {
    let text = data_encoding::BASE64.encode(&[fill; 48]);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    Arc::new(ClientCa::parse(&pem).unwrap())
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

/// A finder of names, for the sentences that hold for both: a [`Store`] gives
/// open keys, a [`Catalog`] sealed ones.
pub struct Finder<K> {
    find: Find<K>,
    /// Makes a pattern answer, with a credential.
    pub put: Put,
}

type Find<K> = Arc<dyn Fn(HostName) -> BoxFuture<'static, Result<Answer<K>>> + Send + Sync>;

impl<K> Finder<K> {
    /// Finds what answers for this name.
    #[must_use]
    pub fn find(&self, name: &HostName) -> BoxFuture<'static, Result<Answer<K>>> {
        (self.find)(name.clone())
    }

    /// The pattern that answers for a name.
    pub async fn answering(&self, name: &str) -> Option<HostPattern> {
        let name = HostName::parse(name).unwrap();
        let found = self.find(&name).await.unwrap().found?;
        assert_eq!(found.credentials.len(), 1);
        Some(found.record.pattern)
    }
}

impl From<Names> for Finder<OpenKey> {
    fn from(names: Names) -> Self {
        let store = names.store;
        Self {
            find: Arc::new(move |name| {
                let store = Arc::clone(&store);
                Box::pin(async move { store.find(&name).await })
            }),
            put: names.put,
        }
    }
}

impl From<Fixture> for Finder<SealedBytes> {
    fn from(fixture: Fixture) -> Self {
        let fixture = Arc::new(fixture);
        let catalog = Arc::clone(&fixture.catalog);
        Self {
            find: Arc::new(move |name| {
                let catalog = Arc::clone(&catalog);
                Box::pin(async move { catalog.find(&name).await })
            }),
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

/// All hosts of a catalog that has few.
pub async fn all_hosts(catalog: &dyn Catalog) -> Vec<HostRecord> {
    let all = HostFilter::default();
    let page = catalog.list_hosts(&all, None, MANY).await.unwrap();
    assert_eq!(page.next, None, "there are few");
    page.hosts
}

/// All credentials of a catalog that has few.
pub async fn all_credentials(catalog: &dyn Catalog) -> Vec<StoredCredential<SealedBytes>> {
    let listed = catalog.list_credentials(&CredentialFilter::All, None, MANY);
    let page = listed.await.unwrap();
    assert_eq!(page.next, None, "there are few");
    page.credentials
}

/// More than there are in a catalog that has few.
const MANY: usize = 2000;

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
pub fn put_host<S>(record: HostRecord) -> Write<S> {
    Write::PutHost(record, Precondition::Any)
}

/// Writes a host with a credential of that number, whose key is in the form
/// that `key` gives it.
#[must_use]
pub fn host_with<S>(name: &str, number: u64, key: fn(&[u8]) -> S) -> Vec<Write<S>> {
    let id = CredentialId::from_u64(number);
    let credential = StoredCredential {
        id,
        version: 0,
        key_type: KeyType::Ecdsa,
        chain: vec![certificate(number), certificate(0)],
        key: key(&number.to_be_bytes()),
        not_before: 0,
        not_after: 1,
        origin: None,
    };
    let host = record(name, &[(KeyType::Ecdsa, id)]);
    vec![
        Write::PutCredential(credential, Precondition::Any),
        put_host(host),
    ]
}

/// Sealed bytes that nobody can open.
#[must_use]
pub fn sealed(bytes: &[u8]) -> SealedBytes {
    SealedBytes {
        key_id: 7,
        nonce: [9; 12],
        bytes: bytes.to_vec(),
    }
}

/// Bytes in the clear.
#[must_use]
pub fn plain(bytes: &[u8]) -> Secret {
    Secret::new(bytes.to_vec())
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
