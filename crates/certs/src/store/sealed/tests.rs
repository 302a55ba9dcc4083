//! Two processes on one catalog, while the key that seals is changed.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::contract::fixture::{certificate, plain, put_host, record};
use crate::credential::{CredentialId, KeyType, StoredCredential};
use crate::host::HostName;
use crate::seal::{KeyRing, KeySource};
use crate::store::memory::Memory;
use crate::store::{Answer, Document, Store};

/// A catalog with a key file of one key.
struct Rig {
    _folder: tempfile::TempDir,
    file: PathBuf,
    inner: Arc<Memory>,
    first: u32,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("master.key");
        let ring = KeyRing::create_file(&file).unwrap();
        let first = ring.first();
        let inner = Arc::new(Memory::new(Clock::System));
        let rig = Self {
            _folder: folder,
            file,
            inner,
            first,
        };
        Sealed::create(rig.inner(), ring).await.unwrap();
        rig
    }

    fn inner(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.inner) as Arc<dyn Catalog>
    }

    /// A process that reads the key file again.
    async fn process(&self) -> Sealed {
        let keys = Keys::load(&KeySource::File(self.file.clone())).unwrap();
        Sealed::open(self.inner(), keys).await.unwrap()
    }

    /// A process that keeps the keys that the file has now.
    async fn fixed(&self) -> Sealed {
        let ring = KeySource::File(self.file.clone()).load().unwrap();
        Sealed::open(self.inner(), ring).await.unwrap()
    }

    /// The keys that everything is sealed under.
    async fn sealings(&self) -> Vec<u32> {
        let sealed = Sealed::unopened(
            self.inner(),
            KeySource::File(self.file.clone()).load().unwrap(),
        );
        let (mut walk, mut keys) = (Walk::new(), Vec::new());
        loop {
            let page = sealed.secrets(&mut walk, 2).await.unwrap();
            if page.is_empty() {
                return keys;
            }
            keys.extend(page.iter().map(|secret| secret.key().unwrap()));
        }
    }
}

async fn put(catalog: &Sealed, number: u64) -> Result<u64> {
    let id = CredentialId::from_u64(number);
    let credential = StoredCredential {
        id,
        version: 0,
        key_type: KeyType::Ecdsa,
        chain: vec![certificate(number)],
        key: plain(&number.to_be_bytes()),
        not_before: 0,
        not_after: 1,
        renew_at: None,
    };
    let host = record(&format!("h{number}.example"), &[(KeyType::Ecdsa, id)]);
    let put = Write::PutCredential(credential, Expect::Any);
    catalog.write(vec![put, put_host(host)]).await
}

async fn document(catalog: &Sealed, key: &str) -> Result<u64> {
    let document = Document {
        kind: "kind".to_owned(),
        key: key.to_owned(),
        bytes: plain(b"content"),
        expires: None,
        version: 0,
    };
    let put = Write::PutDocument(document, Expect::Any);
    catalog.write(vec![put]).await
}

async fn key_of(catalog: &Sealed, number: u64) -> Vec<u8> {
    let name = HostName::parse(&format!("h{number}.example")).unwrap();
    match catalog.find(&name).await.unwrap() {
        Answer::Found(found) => found.credentials[0].key.secret().unwrap().expose().to_vec(),
        Answer::Absent => panic!("{name} is absent"),
    }
}

async fn reseal_all(catalog: &Sealed) -> u64 {
    let (mut walk, mut count) = (Walk::new(), 0);
    loop {
        let page = catalog.secrets(&mut walk, 2).await.unwrap();
        if page.is_empty() {
            return count;
        }
        let outcome = catalog.reseal(&page).await.unwrap();
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        count += outcome.sealed;
    }
}

#[tokio::test]
async fn nothing_is_written_under_an_old_key_once_another_seals() {
    let rig = Rig::new().await;
    let (server, command) = (rig.process().await, rig.process().await);
    put(&server, 1).await.unwrap();
    let second = KeyRing::extend_file(&rig.file).unwrap();
    // A new key only opens.
    put(&command, 2).await.unwrap();
    assert_eq!(rig.sealings().await, [rig.first; 3]);
    command.seal_under(second).await.unwrap();
    // This one has followed no log and has not read the file again.
    put(&server, 3).await.unwrap();
    document(&server, "a").await.unwrap();
    let (old, new) = (rig.first, second);
    assert_eq!(rig.sealings().await, [old, old, new, new, new]);
    for number in 1..=3 {
        assert_eq!(key_of(&server, number).await, number.to_be_bytes());
    }
}

#[tokio::test]
async fn sealing_again_is_resumable_and_no_change() {
    let rig = Rig::new().await;
    let catalog = rig.process().await;
    for number in 1..=5 {
        put(&catalog, number).await.unwrap();
        document(&catalog, &number.to_string()).await.unwrap();
    }
    let second = KeyRing::extend_file(&rig.file).unwrap();
    catalog.seal_under(second).await.unwrap();
    let position = catalog.position().await.unwrap();
    // One that ends in the middle.
    let page = catalog.secrets(&mut Walk::new(), 3).await.unwrap();
    assert_eq!(catalog.reseal(&page).await.unwrap().sealed, 3);
    assert_eq!(reseal_all(&rig.process().await).await, 7);
    assert_eq!(reseal_all(&catalog).await, 0);
    assert_eq!(catalog.position().await.unwrap(), position);
    assert_eq!(rig.sealings().await, [second; 11]);
    KeyRing::shorten_file(&rig.file, rig.first).unwrap();
    let alone = rig.process().await;
    for number in 1..=5 {
        assert_eq!(key_of(&alone, number).await, number.to_be_bytes());
    }
}

#[tokio::test]
async fn without_the_key_that_seals_it_opens_what_it_can_and_seals_nothing() {
    let rig = Rig::new().await;
    let poor = rig.fixed().await;
    put(&poor, 1).await.unwrap();
    let second = KeyRing::extend_file(&rig.file).unwrap();
    let rich = rig.process().await;
    rich.seal_under(second).await.unwrap();
    put(&rich, 2).await.unwrap();
    let id = format!("{second:08x}");
    let error = put(&poor, 3).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused(what) if what.contains(&id)),
        "{error}"
    );
    assert_eq!(key_of(&poor, 1).await, 1_u64.to_be_bytes());
    let name = HostName::parse("h2.example").unwrap();
    let error = poor.find(&name).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt(what) if what.contains(&id)),
        "{error}"
    );
    // Hosts are no secrets.
    poor.write(vec![put_host(record("plain.example", &[]))])
        .await
        .unwrap();
    let error = Sealed::open(rig.inner(), poor.keys).await.unwrap_err();
    assert!(error.to_string().contains("wrong master key"), "{error}");
}

#[tokio::test]
async fn who_follows_the_log_learns_of_another_key() {
    let rig = Rig::new().await;
    let (server, command) = (rig.process().await, rig.process().await);
    let position = server.position().await.unwrap();
    server.changes(position.number, 9).await.unwrap();
    let second = KeyRing::extend_file(&rig.file).unwrap();
    command.seal_under(second).await.unwrap();
    let look = async {
        while !server.keys.ring().has(second) {
            server.changes(position.number, 9).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), look)
        .await
        .expect("in time");
    assert_eq!(server.known.check().unwrap().key, second);
    let error = command.seal_under(0).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
}
