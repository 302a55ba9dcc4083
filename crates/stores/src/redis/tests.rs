use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use sekisho_testkit::{Key, Pair, RedisServer, TestCa};

use super::*;
use sekisho_certs::credential::KeyType;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Found, StoreError};

mod client;
mod cluster;
mod failover;
mod outages;
mod sentinel;
mod tls;

/// A store on a server of its own.
struct Bench {
    server: RedisServer,
    ca: TestCa,
    store: Redis,
}

impl Bench {
    fn new() -> Self {
        Self::on(RedisServer::start(), "redis://127.0.0.1:PORT")
    }

    /// PORT stands for the server's in the URL.
    fn on(server: RedisServer, url: &str) -> Self {
        let store = open(&url.replace("PORT", &server.port().to_string()));
        Self {
            store,
            ca: TestCa::new(),
            server,
        }
    }

    /// Stores a pair in the papers' layout.
    fn put(&self, name: &str, key: Key) -> Pair {
        let pair = self.ca.issue(&[name], key);
        self.server.set(&format!("{name}.crt"), &pair.chain_pem());
        self.server.set(&format!("{name}.key"), &pair.key_pem());
        pair
    }

    async fn find(&self, name: &str) -> Result<Answer<OpenKey>> {
        find(&self.store, name).await
    }

    async fn found(&self, name: &str) -> Found<OpenKey> {
        found(self.find(name).await)
    }

    async fn absent(&self, name: &str) -> bool {
        matches!(self.find(name).await, Ok(Answer { found: None, .. }))
    }

    /// Name of the store's connection at the server.
    fn connection(&self) -> String {
        let list = self.server.cli(&["client", "list"]);
        let ours = list.lines().find(|line| !line.contains("cmd=client"));
        let id = ours.expect("it is connected").split(' ').next();
        id.expect("it has an id").to_owned()
    }

    /// Why what is stored can't be used.
    async fn corrupt(&self, name: &str) -> String {
        match self.find(name).await {
            Err(StoreError::Corrupt(why)) => why.to_string(),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Longest wait for what a server tells.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

fn open(url: &str) -> Redis {
    let url = RedisUrl::parse(url, Path::new("/")).unwrap();
    Redis::open(&url, &Handle::current()).unwrap()
}

async fn find(store: &dyn Store, name: &str) -> Result<Answer<OpenKey>> {
    store.find(&HostName::parse(name).unwrap()).await
}

fn found(answer: Result<Answer<OpenKey>>) -> Found<OpenKey> {
    match answer {
        Ok(Answer {
            found: Some(found), ..
        }) => *found,
        other => panic!("{other:?}"),
    }
}

/// Why the server can't be read.
fn unavailable<T: fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(StoreError::Unavailable(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Asks again until it is found.
async fn healed(store: &dyn Store, name: &str) -> Found<OpenKey> {
    let begun = Instant::now();
    loop {
        match find(store, name).await {
            Ok(Answer {
                found: Some(found), ..
            }) => return *found,
            Ok(Answer { found: None, .. }) => panic!("{name} is absent"),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn finds_exact_before_wildcard() {
    let bench = Bench::new();
    let wildcard = bench.put("*.example.com", Key::P256);
    let exact = bench.put("a.example.com", Key::Rsa2048);
    let found = bench.found("b.example.com").await;
    assert_eq!(found.record.pattern.as_str(), "*.example.com");
    assert_eq!(found.credentials[0].chain, wildcard.chain);
    assert!(found.shadowed && found.fresh_for.is_none());
    let found = bench.found("a.example.com").await;
    assert_eq!(found.record.pattern.as_str(), "a.example.com");
    assert_eq!(found.credentials[0].chain, exact.chain);
    assert_eq!(found.credentials[0].key_type, KeyType::Rsa);
    let key = found.credentials[0].key.secret();
    assert_eq!(key.expose(), exact.key_der().secret_der());
    assert!(bench.absent("a.b.example.com").await);
    assert!(bench.absent("example.com").await);
    assert!(bench.absent("localhost").await);
}

#[tokio::test]
async fn templates_say_where_the_halves_lie() {
    let url = "redis://127.0.0.1:PORT/0?chain=tls:{host}:chain&key=tls:{host}:key";
    let bench = Bench::on(RedisServer::start(), url);
    let pair = bench.ca.issue(&["a.example"], Key::P256);
    bench.server.set("tls:a.example:chain", &pair.chain_pem());
    bench.server.set("tls:a.example:key", &pair.key_pem());
    let found = bench.found("a.example").await;
    assert_eq!(found.credentials[0].chain, pair.chain);
}

#[tokio::test]
async fn both_keys_take_one_mget() {
    let bench = Bench::new();
    bench.put("a.example.com", Key::P256);
    bench.found("a.example.com").await;
    bench.server.cli(&["config", "resetstat"]);
    for _ in 0..10 {
        bench.found("a.example.com").await;
    }
    let stats = bench.server.cli(&["info", "commandstats"]);
    assert!(stats.contains("cmdstat_mget:calls=10,"), "{stats}");
    assert!(!stats.contains("cmdstat_get:"), "{stats}");
}

#[tokio::test]
async fn a_renewal_is_another_version() {
    let bench = Bench::new();
    bench.put("a.example", Key::P256);
    let before = bench.found("a.example").await;
    assert_eq!(before.record, bench.found("a.example").await.record);
    bench.put("a.example", Key::P256);
    let after = bench.found("a.example").await;
    assert_ne!(before.credentials[0].id, after.credentials[0].id);
    assert_ne!(before.record.version, after.record.version);
}

#[tokio::test]
async fn half_a_pair_is_failed_and_not_absent() {
    let bench = Bench::new();
    for (missing, there) in [("crt", "key"), ("key", "crt")] {
        bench.put("a.example", Key::P256);
        bench.server.cli(&["del", &format!("a.example.{missing}")]);
        let why = bench.corrupt("a.example").await;
        let wanted =
            format!("host a.example: a.example.{there} is there, but a.example.{missing} is");
        assert!(why.contains(&wanted), "{why}");
    }
    bench.server.cli(&["del", "a.example.crt", "a.example.key"]);
    assert!(bench.absent("a.example").await);
}

/// The old key still lies beside the new chain at the first look.
#[tokio::test]
async fn a_pair_is_never_mixed() {
    let bench = Bench::new();
    bench.put("a.example", Key::P256);
    let new = bench.ca.issue(&["a.example"], Key::P256);
    bench.server.set("a.example.crt", &new.chain_pem());
    let (found, ()) = tokio::join!(bench.found("a.example"), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        bench.server.set("a.example.key", &new.key_pem());
    });
    assert_eq!(found.credentials[0].chain, new.chain);
    let key = found.credentials[0].key.secret();
    assert_eq!(key.expose(), new.key_der().secret_der());
}

#[tokio::test]
async fn a_pair_that_stays_wrong_says_why_and_shows_no_key() {
    let bench = Bench::new();
    let one = bench.put("a.example", Key::P256);
    let other = bench.ca.issue(&["a.example"], Key::P256);
    for (chain, key, wanted) in [
        (one.chain_pem(), other.key_pem(), "does not belong"),
        (String::new(), one.key_pem(), "no certificate"),
        (one.chain_pem()[..200].to_owned(), one.key_pem(), "was cut"),
    ] {
        bench.server.set("a.example.crt", &chain);
        bench.server.set("a.example.key", &key);
        let why = bench.corrupt("a.example").await;
        assert!(why.contains(wanted), "{why}");
        assert!(!why.contains(key.lines().nth(1).unwrap()), "{why}");
    }
}

#[tokio::test]
async fn a_key_that_holds_no_string_is_failed_and_not_absent() {
    let bench = Bench::new();
    for keys in [&["a.example.crt"][..], &["a.example.crt", "a.example.key"]] {
        for key in keys {
            bench.server.cli(&["hset", key, "field", "value"]);
        }
        let why = bench.corrupt("a.example").await;
        assert!(why.contains("a.example.crt"), "{why}");
        assert!(why.contains("holds no string"), "{why}");
        bench.server.cli(&["del", "a.example.crt", "a.example.key"]);
    }
    // Nor does it hide behind the wildcard.
    bench.put("*.example.com", Key::P256);
    bench.server.cli(&["hset", "a.example.com.crt", "f", "v"]);
    bench.corrupt("a.example.com").await;
    bench.found("b.example.com").await;
    // The exact pair is no concern of what is wrong with the wildcard.
    bench.put("c.example.com", Key::P256);
    bench.server.cli(&["del", "*.example.com.crt"]);
    bench.server.cli(&["hset", "*.example.com.crt", "f", "v"]);
    bench.found("c.example.com").await;
}

#[tokio::test]
async fn a_value_over_the_bound_is_not_taken_in() {
    let bench = Bench::new();
    bench.put("a.example", Key::P256);
    bench.put("b.example", Key::P256);
    let size = (100 << 20).to_string();
    bench.server.cli(&["setrange", "a.example.crt", &size, "x"]);
    bench.found("b.example").await;
    let ours = bench.connection();
    let why = bench.corrupt("a.example").await;
    assert!(why.contains("a.example.crt has over 1 MiB"), "{why}");
    bench.found("b.example").await;
    assert_eq!(bench.connection(), ours, "the connection goes on");
}

#[tokio::test]
async fn the_database_is_the_one_of_the_url() {
    let bench = Bench::on(RedisServer::start(), "redis://127.0.0.1:PORT/3");
    bench.put("a.example", Key::P256);
    assert!(bench.absent("a.example").await);
    for key in ["a.example.crt", "a.example.key"] {
        assert_eq!(bench.server.cli(&["move", key, "3"]), "1");
    }
    bench.found("a.example").await;
    let port = bench.server.port();
    let beyond = open(&format!("redis://127.0.0.1:{port}/99"));
    let why = unavailable(beyond.reach().await);
    assert!(why.contains("database"), "{why}");
}

#[tokio::test]
async fn logins_are_sent_and_wrong_ones_named() {
    let args = ["--requirepass", "open:sesame@1"];
    let cli = ["-a", "open:sesame@1", "--no-auth-warning"];
    let server = RedisServer::start_with(&args, &cli);
    let rules = ["acl", "setuser", "ada", "on", ">lovelace", "~*"];
    let rules = [&rules[..], &["+mget", "+exists", "+ping"]].concat();
    server.cli(&rules);
    let port = server.port();
    let bench = Bench::on(server, "redis://:open%3Asesame%401@127.0.0.1:PORT");
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;
    found(
        find(
            &open(&format!("redis://ada:lovelace@127.0.0.1:{port}")),
            "a.example",
        )
        .await,
    );
    for (login, wanted) in [
        ("", "NOAUTH"),
        (":guessed@", "wrong user or password"),
        ("ada:guessed@", "wrong user or password"),
    ] {
        let store = open(&format!("redis://{login}127.0.0.1:{port}"));
        for why in [
            unavailable(store.reach().await),
            unavailable(find(&store, "a.example").await),
            unavailable(find(&store, "none.example").await),
        ] {
            assert!(why.contains(wanted), "{why}");
            assert!(why.contains(&format!("127.0.0.1:{port}")), "{why}");
            assert!(!why.contains("guessed"), "{why}");
        }
    }
}

#[tokio::test]
async fn a_missing_permission_is_failed_and_named() {
    let server = RedisServer::start();
    server.cli(&["acl", "setuser", "ada", "on", ">pw", "~*", "+ping"]);
    let bench = Bench::on(server, "redis://ada:pw@127.0.0.1:PORT");
    let why = unavailable(bench.find("a.example").await);
    assert!(
        why.contains("NOPERM") && why.contains("MGET, EXISTS"),
        "{why}"
    );
}
