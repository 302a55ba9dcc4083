//! Two processes on one catalog, while the key that seals is changed.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::seal::{KeyRing, KeySource, Keys, MasterKey, SealedSecret, Walk};
use sekisho_certs::store::{Document, DocumentId, Precondition, Result, Write};
use sekisho_certs::{
    Answer, Batch, Catalog, Clock, Fence, Follower, HostName, HostPattern, Lineage, Listed,
    OpenKey, Sealer, StoreError, Tenant,
};
use sekisho_testkit::Memory;
use sekisho_testkit::contract::fixture::{
    all_credentials, all_hosts, host_with, plain, put_host, record, sealed,
};

/// A catalog with a key file of one key.
struct Rig {
    _folder: tempfile::TempDir,
    file: PathBuf,
    catalog: Arc<Memory>,
    first: u32,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("master.key");
        let ring = KeyRing::create_file(&file).unwrap();
        let first = ring.first();
        let catalog = Arc::new(Memory::new(Clock::System));
        let rig = Self {
            _folder: folder,
            file,
            catalog,
            first,
        };
        Sealer::create(rig.catalog(), ring).await.unwrap();
        rig
    }

    fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.catalog) as Arc<dyn Catalog>
    }

    /// A process that reads the key file again.
    async fn process(&self) -> Sealer {
        let keys = Keys::load(&KeySource::File(self.file.clone())).unwrap();
        Sealer::open(self.catalog(), keys).await.unwrap()
    }

    /// A process that keeps the keys that the file has now.
    async fn fixed(&self) -> Sealer {
        let ring = KeySource::File(self.file.clone()).load().unwrap();
        Sealer::open(self.catalog(), ring).await.unwrap()
    }

    /// The keys that everything is sealed under.
    async fn sealings(&self) -> Vec<u32> {
        let sealed = Sealer::unopened(
            self.catalog(),
            KeySource::File(self.file.clone()).load().unwrap(),
        );
        let (mut walk, mut keys) = (Walk::default(), Vec::new());
        loop {
            let page = sealed.secrets(&mut walk, 2).await.unwrap();
            if page.is_empty() {
                return keys;
            }
            keys.extend(page.iter().map(SealedSecret::key));
        }
    }
}

async fn put(sealer: &Sealer, number: u64) -> Result<u64> {
    let name = format!("h{number}.example");
    sealer.write(host_with(&name, number, plain)).await
}

async fn document(sealer: &Sealer, key: &str) -> Result<u64> {
    let id = DocumentId::new("kind", key.to_owned());
    let document = Document::new(id, plain(b"content"));
    let put = Write::PutDocument(document, Precondition::Any);
    sealer.write(vec![put]).await
}

/// Puts a lineage with an order.
async fn order(sealer: &Sealer, name: &str) -> Result<u64> {
    let names = [HostPattern::parse(name).unwrap()];
    let mut lineage = Lineage::new(Tenant::default(), names).unwrap();
    lineage.order = Some(plain(name.as_bytes()));
    sealer
        .write(vec![Write::PutLineage(lineage, Fence::Any)])
        .await
}

async fn find(sealer: &Sealer, name: &str) -> Result<Answer<OpenKey>> {
    let name = HostName::parse(name).unwrap();
    let answer = sealer.catalog().find(&name).await?;
    sealer.open_answer(answer).await
}

async fn key_of(sealer: &Sealer, number: u64) -> Vec<u8> {
    let answer = find(sealer, &format!("h{number}.example")).await.unwrap();
    let key = &answer.found.expect("it is there").credentials[0].key;
    assert!(key.is_proved());
    key.secret().expose().to_vec()
}

async fn reseal_all(catalog: &Sealer) -> u64 {
    let (mut walk, mut count) = (Walk::default(), 0);
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
    // The last one has followed no log and has not read the file again.
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
        order(&catalog, &format!("h{number}.example"))
            .await
            .unwrap();
    }
    let second = KeyRing::extend_file(&rig.file).unwrap();
    catalog.seal_under(second).await.unwrap();
    let position = catalog.catalog().head().await.unwrap();
    // A pass that ends in the middle.
    let page = catalog.secrets(&mut Walk::default(), 3).await.unwrap();
    assert_eq!(catalog.reseal(&page).await.unwrap().sealed, 3);
    assert_eq!(reseal_all(&rig.process().await).await, 12);
    assert_eq!(reseal_all(&catalog).await, 0);
    assert_eq!(catalog.catalog().head().await.unwrap(), position);
    assert_eq!(rig.sealings().await, [second; 16]);
    KeyRing::shorten_file(&rig.file, rig.first).unwrap();
    let alone = rig.process().await;
    for number in 1..=5 {
        assert_eq!(key_of(&alone, number).await, number.to_be_bytes());
    }
    for stored in alone
        .catalog()
        .list_lineages(Listed::All, None, 9)
        .await
        .unwrap()
    {
        let opened = alone.open_lineage(stored).await.unwrap();
        assert_eq!(opened.order, Some(plain(opened.name.as_str().as_bytes())));
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
    let error = find(&poor, "h2.example").await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt(what) if what.contains(&id)),
        "{error}"
    );
    // Hosts are no secrets.
    poor.write(vec![put_host(record("plain.example", &[]))])
        .await
        .unwrap();
    let ring = KeyRing::clone(&poor.ring());
    let error = Sealer::open(rig.catalog(), ring).await.unwrap_err();
    assert!(error.to_string().contains("wrong master key"), "{error}");
}

#[tokio::test]
async fn who_follows_the_log_learns_of_another_key() {
    let rig = Rig::new().await;
    let (server, command) = (rig.process().await, rig.process().await);
    let position = server.catalog().head().await.unwrap();
    let page = || server.catalog().changes(position.number, 9);
    server.follow(&page().await.unwrap()).await;
    let second = KeyRing::extend_file(&rig.file).unwrap();
    command.seal_under(second).await.unwrap();
    let look = async {
        while !server.ring().has(second) {
            server.follow(&page().await.unwrap()).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), look)
        .await
        .expect("in time");
    let error = command.seal_under(0).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
}

/// A key of another store, or of a file that somebody moved, does not open.
#[tokio::test]
async fn what_was_sealed_opens_only_where_it_was_sealed() {
    let rig = Rig::new().await;
    let sealer = rig.process().await;
    for number in 1..=2 {
        put(&sealer, number).await.unwrap();
    }
    let stored = all_credentials(&*rig.catalog).await;
    let [one, other] = &stored[..] else {
        panic!("two credentials: {stored:?}")
    };
    let moved = one.clone().with_key(other.key.clone());
    let error = sealer.open_credentials(vec![moved]).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("does not open"), "{error}");
    let opened = sealer.open_credentials(stored).await.unwrap();
    assert!(opened.iter().all(|one| one.key.is_proved()));
    for name in ["a.example", "b.example"] {
        order(&sealer, name).await.unwrap();
    }
    let mut stored = rig
        .catalog
        .list_lineages(Listed::All, None, 9)
        .await
        .unwrap();
    let (other, mut moved) = (stored.remove(1), stored.remove(0));
    moved.order = other.order;
    let error = sealer.open_lineage(moved).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("lineage a.example"), "{error}");
}

/// Hosts alone need no key, and yet conflict with a change of the key: the
/// batch is made again by itself.
#[tokio::test]
async fn every_batch_requires_its_check_value() {
    let rig = Rig::new().await;
    let sealer = rig.process().await;
    let host = || vec![put_host(record("a.example", &[]))];
    sealer.write(host()).await.unwrap();
    let late = rig.catalog.last_batch().unwrap();
    let second = KeyRing::extend_file(&rig.file).unwrap();
    rig.process().await.seal_under(second).await.unwrap();
    let error = rig.catalog.write(late).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    sealer.write(host()).await.unwrap();
    let there = all_hosts(&*rig.catalog).await;
    assert_eq!(there.len(), 1);
}

#[tokio::test]
async fn a_catalog_that_was_never_sealed_is_refused() {
    let catalog = Arc::new(Memory::new(Clock::System));
    let ring = || KeyRing::new(MasterKey::new(&[1; 32]));
    let open = Sealer::open(catalog.clone(), ring()).await.unwrap_err();
    assert!(open.to_string().contains("no check value"), "{open}");
    let foreign = host_with("a.example", 1, sealed);
    catalog.write(Batch::unchecked(foreign)).await.unwrap();
    let made = Sealer::create(catalog, ring()).await.unwrap_err();
    assert!(made.to_string().contains("no check value"), "{made}");
}
