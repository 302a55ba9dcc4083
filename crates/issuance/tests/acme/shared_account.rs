//! Accounts, one per CA for all servers of a catalog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use sekisho_certs::credential::Secret;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::{Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{Clock, Lease, Sealer};
use sekisho_issuance::accounts::{AccountError, Accounts};
use sekisho_issuance::acme::{Blame, Ca, CaSettings, ExternalAccount};
use sekisho_testkit::Answer;
use sekisho_testkit::Memory;
use sekisho_testkit::services::PebbleOptions;
use tokio::time::Instant;

use crate::fixture::{Fixture, agreed, names, order_of, settings};
use crate::scripted::Scripted;

/// Catalog of a cluster, and its time in milliseconds.
struct Cluster {
    catalog: Arc<Memory>,
    sealer: Sealer,
    now: Arc<AtomicI64>,
}

impl Cluster {
    async fn start() -> Self {
        let now = Arc::new(AtomicI64::new(1_800_000_000_000));
        let catalog = Arc::new(Memory::new(Clock::Manual(Arc::clone(&now))));
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        let sealer = Sealer::create(Arc::clone(&catalog) as _, ring).await;
        Self {
            catalog,
            sealer: sealer.unwrap(),
            now,
        }
    }

    fn server(&self) -> Accounts {
        self.with_contact("mailto:ops@example.com")
    }

    fn with_contact(&self, contact: &str) -> Accounts {
        let contact = vec![contact.into()];
        Accounts::new(self.sealer.clone(), contact, true, self.clock())
    }

    fn clock(&self) -> Clock {
        Clock::Manual(Arc::clone(&self.now))
    }

    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Lets one write fail. Returns whether it was that of a server, within a moment.
    async fn fails_one_write(&self) -> bool {
        self.catalog.fail_writes(1);
        tokio::task::yield_now().await;
        let id = DocumentId::new(DocumentKind::new("probe"), "probe");
        let document = Document::new(id, Secret::new(Vec::new()));
        let put = Write::PutDocument(document, Precondition::Any);
        self.sealer.write(vec![put]).await.is_ok()
    }
}

/// Accounts that a scripted CA was asked for.
fn asked_for(ca: &Scripted) -> usize {
    let asked = ca.endpoint.asked();
    asked.iter().filter(|a| a.target == "/newAccount").count()
}

/// Public keys with which a scripted CA was asked for an account.
fn keys_of_new_accounts(ca: &Scripted) -> Vec<String> {
    let asked = ca.endpoint.asked();
    let asked = asked.iter().filter(|a| a.target == "/newAccount");
    let key = |body: &str| {
        let jws: serde_json::Value = serde_json::from_str(body).unwrap();
        let head = BASE64URL_NOPAD.decode(jws["protected"].as_str().unwrap().as_bytes());
        let head: serde_json::Value = serde_json::from_slice(&head.unwrap()).unwrap();
        head["jwk"].to_string()
    };
    asked.map(|a| key(&a.body)).collect()
}

#[tokio::test]
async fn two_servers_make_one_account() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let (one, other) = (cluster.server(), cluster.server());
    let ca = &fixture.ca;
    let (a, b, c) = tokio::join!(one.get(ca, None), one.get(ca, None), other.get(ca, None));
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert_eq!((a.id(), a.id()), (b.id(), c.id()));
    // The key came through the catalog, too.
    let names = names(&["a.example"]);
    fixture.issue(&c, &order_of(&names)).await;
    let restarted = cluster.server().get(ca, None).await.unwrap();
    assert_eq!(restarted.to_bytes(), a.to_bytes());
}

#[tokio::test]
async fn a_kill_before_the_saving_leaves_no_second_account() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    // The killed server never gets the CA's answer.
    let is_open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&is_open);
    let line = fixture.pebble.proxy(move |path, status| {
        path != "/sign-me-up" || status.is_none() || opened.load(Ordering::SeqCst)
    });
    let settings = CaSettings {
        directory: format!("https://127.0.0.1:{}/dir", line.port()),
        ..settings(&fixture.pebble)
    };
    let (killed, ca) = (cluster.server(), Ca::new(&settings).unwrap());
    let making = tokio::spawn(async move { killed.get(&ca, None).await });
    while !fixture.pebble.log().contains("There are now 1 accounts") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    making.abort();
    assert!(making.await.unwrap_err().is_cancelled());
    cluster.pass(61);
    is_open.store(true, Ordering::SeqCst);
    let ca = Ca::new(&settings).unwrap();
    let account = cluster.server().get(&ca, None).await.unwrap();
    assert_eq!(account.contact(), agreed().contact);
    let log = fixture.pebble.log();
    assert!(!log.contains("There are now 2 accounts"), "{log}");
}

#[tokio::test]
async fn one_request_makes_the_account_of_all_callers() {
    let (scripted, cluster) = (Scripted::start(), Cluster::start().await);
    let ca = &scripted.ca;
    let servers = [cluster.server(), cluster.server()];
    let (a, b) = (&servers[0], &servers[1]);
    for made in [
        tokio::join!(a.get(ca, None), a.get(ca, None), b.get(ca, None)),
        tokio::join!(b.get(ca, None), a.get(ca, None), b.get(ca, None)),
    ] {
        assert!(made.0.is_ok() && made.1.is_ok() && made.2.is_ok());
    }
    assert_eq!(asked_for(&scripted), 1);
}

#[tokio::test]
async fn all_who_wait_share_a_failure() {
    let (scripted, cluster) = (Scripted::start(), Cluster::start().await);
    scripted.put("newAccount", Answer::status(503));
    let (server, ca) = (cluster.server(), &scripted.ca);
    let failed = tokio::join!(server.get(ca, None), server.get(ca, None));
    for error in [failed.0.unwrap_err(), failed.1.unwrap_err()] {
        assert!(
            matches!(&error, AccountError::Ca(error) if error.blame() == Blame::Ca),
            "{error}"
        );
    }
    assert_eq!(asked_for(&scripted), 1);
    // The next one asks again, and the lease of the failed attempt is in no way.
    scripted.put(
        "newAccount",
        Answer::status(201).with("location", &scripted.url("x")),
    );
    assert_eq!(
        cluster.server().get(ca, None).await.unwrap().id(),
        scripted.url("x")
    );
}

#[tokio::test]
async fn a_killed_server_blocks_no_longer_than_its_lease() {
    let (scripted, cluster) = (Scripted::start(), Cluster::start().await);
    let account = Answer::status(201).with("location", &scripted.url("account"));
    scripted.put(
        "newAccount",
        account.clone().after(Duration::from_secs(600)),
    );
    let (killed, ca) = (cluster.server(), scripted.ca.clone());
    let making = tokio::spawn(async move { killed.get(&ca, None).await });
    while asked_for(&scripted) == 0 {
        tokio::task::yield_now().await;
    }
    making.abort();
    assert!(making.await.unwrap_err().is_cancelled());

    scripted.put("newAccount", account);
    let other = cluster.server();
    cluster.pass(59);
    let waiting = other.get(&scripted.ca, None);
    tokio::pin!(waiting);
    tokio::time::pause();
    let early = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
    assert!(early.is_err() && asked_for(&scripted) == 1);
    tokio::time::resume();
    cluster.pass(1);
    assert_eq!(waiting.await.unwrap().id(), scripted.url("account"));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_another_server_is_bounded() {
    let cluster = Cluster::start().await;
    let settings = CaSettings::builtin("letsencrypt").unwrap();
    let ca = Ca::new(&settings).unwrap();
    let name = format!("document acme-account/{}", settings.directory);
    let hour = Duration::from_secs(3600);
    let other = Lease::take(&cluster.sealer, name, hour, &cluster.clock()).await;
    assert!(other.unwrap().is_some());
    let began = Instant::now();
    let error = cluster.server().get(&ca, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "letsencrypt: another server has been making or changing the account for 90 s"
    );
    assert!(began.elapsed() < Duration::from_secs(91));
}

#[tokio::test]
async fn a_key_that_the_ca_has_is_saved_when_the_store_is_back() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let (server, ca) = (cluster.server(), &fixture.ca);
    // Without a key that is saved, no CA is asked for an account.
    cluster.catalog.fail_writes(1);
    let error = server.get(ca, None).await.unwrap_err();
    assert!(matches!(error, AccountError::Store(_)), "{error}");
    assert!(!fixture.pebble.log().contains("accounts in memory"));
    let made = server.get(ca, None).await.unwrap();
    cluster.catalog.fail_writes(2);
    let rotated = server.rotate(ca).await.unwrap();
    assert_eq!(rotated.id(), made.id());
    let stored = cluster.server().stored(ca).await.unwrap().unwrap();
    assert_eq!(stored.to_bytes(), rotated.to_bytes());
    stored.check().await.unwrap();
}

/// The key of a new account stays until the account is stored: no one else has it.
#[tokio::test]
async fn an_account_that_was_not_saved_keeps_its_key() {
    let (scripted, cluster) = (Scripted::start(), Cluster::start().await);
    let ca = scripted.ca.clone();
    scripted.put("newAccount", Answer::status(503));
    cluster.server().get(&ca, None).await.unwrap_err();
    let location = scripted.url("account");
    let account = Answer::status(201).with("location", &location);
    scripted.put("newAccount", account);
    let server = cluster.server();
    let making = tokio::spawn(async move { server.get(&ca, None).await });
    while !cluster.fails_one_write().await {}
    tokio::time::pause();
    // Only writes of the account fail: the key could be removed.
    while !making.is_finished() {
        cluster.catalog.fail_writes(1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::resume();
    let error = making.await.unwrap().unwrap_err();
    assert!(matches!(error, AccountError::Store(_)), "{error}");
    cluster.catalog.fail_writes(0);
    let made = cluster.server().get(&scripted.ca, None).await.unwrap();
    assert_eq!(made.id(), location);
    let keys = keys_of_new_accounts(&scripted);
    assert_eq!(keys, [&*keys[0]; 3]);
}

#[tokio::test]
async fn an_account_replaced_elsewhere_is_read_again() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let (server, command) = (cluster.server(), cluster.server());
    let (ca, names) = (&fixture.ca, names(&["a.example"]));
    let old = server.get(ca, None).await.unwrap();
    let rotated = command.rotate(ca).await.unwrap();
    assert_eq!(rotated.id(), old.id());

    let refused = old.order(&order_of(&names)).await.unwrap_err();
    assert!(server.is_stale(&old, &refused).await.unwrap(), "{refused}");
    let new = server.get(ca, None).await.unwrap();
    assert_eq!(new.to_bytes(), rotated.to_bytes());
    assert!(!server.is_stale(&new, &refused).await.unwrap());
    fixture.issue(&new, &order_of(&names)).await;

    assert!(command.deactivate(ca).await.unwrap().is_none());
    assert!(command.stored(ca).await.unwrap().is_none());
    let refused = new.order(&order_of(&names)).await.unwrap_err();
    assert!(server.is_stale(&new, &refused).await.unwrap(), "{refused}");
    let another = server.get(ca, None).await.unwrap();
    assert_ne!(another.id(), new.id());
    fixture.issue(&another, &order_of(&names)).await;
}

#[tokio::test]
async fn an_account_that_the_ca_does_not_know_can_be_removed() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let (server, ca) = (cluster.server(), &fixture.ca);
    let account = server.get(ca, None).await.unwrap();
    account.check().await.unwrap();
    // As after a crash before the new key is saved.
    account.rotate().await.unwrap();
    let refused = account.check().await.unwrap_err();
    assert!(refused.doubts_account(), "{refused}");
    assert!(!server.is_stale(&account, &refused).await.unwrap());
    let command = cluster.server();
    let refused = command.deactivate(ca).await.unwrap().unwrap();
    assert!(
        refused
            .to_string()
            .starts_with("pebble: deactivating the account: "),
        "{refused}"
    );
    assert!(command.stored(ca).await.unwrap().is_none());
    let error = command.deactivate(ca).await.unwrap_err();
    let expected = format!("pebble: the store has no account at {}", ca.directory());
    assert!(error.to_string().starts_with(&expected), "{error}");
    let error = command.rotate(ca).await.unwrap_err();
    assert!(matches!(error, AccountError::Absent(..)), "{error}");
}

#[tokio::test]
async fn the_configured_contact_is_told_once_per_start() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let (one, ca) = (cluster.server(), &fixture.ca);
    one.get(ca, None).await.unwrap();
    let two = cluster.with_contact("mailto:two@example.com");
    let changed = two.get(ca, None).await.unwrap();
    assert_eq!(changed.contact(), ["mailto:two@example.com"]);
    let stored = one.stored(ca).await.unwrap().unwrap();
    assert_eq!(stored.contact(), changed.contact());
    // The first server reads it again, and leaves it as it is.
    let old = one.get(ca, None).await.unwrap();
    two.rotate(ca).await.unwrap();
    let names = names(&["a.example"]);
    let refused = old.order(&order_of(&names)).await.unwrap_err();
    assert!(one.is_stale(&old, &refused).await.unwrap());
    assert_eq!(
        one.get(ca, None).await.unwrap().contact(),
        changed.contact()
    );
    // A contact that the CA refuses keeps nobody from ordering.
    let three = cluster.with_contact("tel:+1");
    let account = three.get(ca, None).await.unwrap();
    assert_eq!(account.contact(), changed.contact());
}

#[tokio::test]
async fn a_server_that_waited_for_the_account_tells_its_contact() {
    let (fixture, cluster) = (Fixture::start(), Cluster::start().await);
    let contacts = ["mailto:one@example.com", "mailto:two@example.com"];
    let [one, two] = contacts.map(|contact| cluster.with_contact(contact));
    let (of_one, of_two) = tokio::join!(one.get(&fixture.ca, None), two.get(&fixture.ca, None));
    for (account, contact) in [of_one, of_two].into_iter().zip(contacts) {
        assert_eq!(account.unwrap().contact(), [contact]);
    }
}

#[tokio::test]
async fn an_external_account_is_bound() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let fixture = Fixture::with(&PebbleOptions {
        external_account: Some(("kid-1".into(), key.into())),
        ..PebbleOptions::default()
    });
    let (cluster, ca) = (Cluster::start().await, &fixture.ca);
    let server = cluster.server();
    let error = server.get(ca, None).await.unwrap_err();
    assert!(error.to_string().contains("eab_id and eab_key"), "{error}");
    let external = ExternalAccount {
        id: "kid-1".into(),
        key: Secret::new(key.into()),
    };
    let account = server.get(ca, Some(&external)).await.unwrap();
    assert_eq!(account.contact(), agreed().contact);
}
