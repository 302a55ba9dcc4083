//! Tests of what is kept, and for whom.

use super::*;
use crate::stored::FORM;

#[tokio::test]
async fn another_server_needs_no_catalog() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    one.fill("a.example").await;
    assert_eq!(one.counts().stored.get(), 1);
    assert_eq!(two.serves("a.example").await, Some(1));
    assert_eq!((two.hits(), two.catalog.finds()), (1, 0));
    let found = two.find("a.example").await.unwrap();
    let direct = Answer::found(*bench.sealed("a.example").await);
    let direct = one.sealer.open_answer(direct).await.unwrap().found.unwrap();
    assert_eq!(format!("{found:?}"), format!("{direct:?}"));
    let [found, direct] = [&found, &direct].map(|one| one.credentials[0].key.secret().expose());
    assert_eq!(found, direct);
}

#[tokio::test]
async fn a_credential_is_kept_once_for_all_its_hosts() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let other = record("b.example", &[(KeyType::Ecdsa, CredentialId::from_u64(1))]);
    bench.write(vec![put_host(other)]).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    server.fill("b.example").await;
    assert_eq!(bench.entries(), 3);
    // After one change neither host is answered with what was replaced.
    bench.replace(1, 2).await;
    server.follow().await;
    assert_eq!(bench.entries(), 2);
    for name in ["a.example", "b.example"] {
        assert_eq!(server.serves(name).await, Some(2));
    }
}

#[tokio::test]
async fn absences_are_not_kept() {
    let bench = Bench::new();
    let server = bench.server().await;
    assert!(server.find("a.example").await.is_none());
    assert!(server.find("a.example").await.is_none());
    assert_eq!((bench.entries(), server.catalog.finds()), (0, 2));
}

#[tokio::test]
async fn a_wildcard_answers_below_itself_until_a_name_has_its_own() {
    let bench = Bench::new();
    bench.put("*.example.com", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    one.fill("a.example.com").await;
    assert_eq!(two.serves("b.example.com").await, Some(1));
    assert_eq!(two.catalog.finds(), 0);
    // Two labels below, and the parent itself, are other names.
    for name in ["a.b.example.com", "example.com"] {
        assert!(two.find(name).await.is_none(), "{name}");
    }
    bench.put("b.example.com", 2).await;
    one.follow().await;
    two.follow().await;
    // A shadowed wildcard is not kept: the catalog knows the exact names.
    one.find("a.example.com").await.unwrap();
    assert_eq!(bench.entries(), 1, "the wildcard's credential");
    assert_eq!(two.serves("b.example.com").await, Some(2));
    assert_eq!(two.serves("a.example.com").await, Some(1));
    bench.remove("b.example.com").await;
    two.follow().await;
    assert_eq!(two.serves("b.example.com").await, Some(1));
}

#[tokio::test]
async fn a_disabled_host_and_one_without_a_credential_are_kept() {
    let bench = Bench::new();
    let mut disabled = record("a.example", &[]);
    disabled.disabled = true;
    let bare = put_host(record("b.example", &[]));
    let batch = vec![put_host(disabled), bare];
    bench.write(batch).await;
    let (one, two) = (bench.server().await, bench.server().await);
    for name in ["a.example", "b.example"] {
        one.fill(name).await;
    }
    assert!(two.find("a.example").await.unwrap().record.disabled);
    assert!(two.find("b.example").await.unwrap().credentials.is_empty());
    assert_eq!(two.hits(), 2);
}

#[tokio::test]
async fn what_lies_there_by_mistake_is_a_miss_that_heals() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    bench.put("b.example", 2).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    server.fill("b.example").await;
    let keys = bench.redis.cli(&["keys", "sekisho:*:[hc]:*"]);
    for key in keys.lines() {
        let other = keys.lines().find(|other| *other != key).unwrap();
        for spoil in [
            &["set", key, "rubbish"][..],
            &["append", key, "more"],
            &["setrange", key, "20", "\u{7}\u{7}\u{7}"],
            &["setrange", key, "900000", "x"],
            &["del", key],
            &["copy", other, key, "replace"],
        ] {
            bench.redis.cli(spoil);
            assert_eq!(server.serves("a.example").await, Some(1), "{spoil:?}");
            assert_eq!(server.serves("b.example").await, Some(2), "{spoil:?}");
            server.usable().await;
        }
        bench.redis.cli(&["del", key]);
        bench.redis.cli(&["lpush", key, "a list"]);
        assert_eq!(server.serves("a.example").await, Some(1));
        server.usable().await;
    }
    assert!(server.counts().unusable_values.get() > 0);
    for name in ["a.example", "b.example"] {
        server.find(name).await.unwrap();
    }
    let before = server.hits();
    until("it is filled again", || bench.entries() == 4).await;
    server.find("a.example").await.unwrap();
    assert!(server.hits() > before);
}

/// Version 0.1 wrote values of form 1 under names without a form.
#[tokio::test]
async fn entries_of_another_form_are_misses() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let one = bench.server().await;
    one.fill("a.example").await;
    drop(one);
    let keys = bench.redis.cli(&["keys", "sekisho:*"]);
    for key in keys.lines() {
        let former = key.replacen(&format!("sekisho:{FORM}:"), "sekisho:", 1);
        assert_ne!(key, former);
        bench.redis.cli(&["rename", key, &former]);
    }
    let two = bench.server().await;
    assert_eq!(two.serves("a.example").await, Some(1));
    assert_eq!((two.hits(), two.catalog.finds()), (0, 1));
}

#[tokio::test]
async fn what_is_too_large_is_not_kept() {
    let bench = Bench::new();
    let server = bench.server().await;
    let mut large = record("b.example", &[]);
    large.site = Some(sekisho_certs::record::Site {
        format: 1,
        json: "x".repeat(600 << 10).into(),
    });
    bench.write(vec![put_host(large)]).await;
    server.follow().await;
    server.usable().await;
    server.fill("b.example").await;
    assert_eq!(server.counts().refused.get(), 1);
    assert_eq!(bench.entries(), 0);
}

#[tokio::test]
async fn the_documented_access_list_is_enough() {
    let bench = Bench::new();
    bench.redis.cli(&[
        "acl",
        "setuser",
        "cache",
        "on",
        ">s3same",
        "~sekisho:*",
        "+evalsha",
        "+eval",
        "+ping",
        "+get",
        "+set",
        "+del",
        "+pexpire",
        "+select",
        "+zadd",
        "+zcard",
        "+zrange",
        "+zrangebyscore",
        "+zremrangebyscore",
        "+zscore",
    ]);
    bench.put("a.example", 1).await;
    let url = "redis://cache:s3same@127.0.0.1:PORT/3";
    let server = bench.started_with(url, &PATIENT).await;
    server.follow().await;
    server.usable().await;
    server.fill("a.example").await;
    bench.replace(1, 2).await;
    server.follow().await;
    server.fill("a.example").await;
    assert_eq!(server.serves("a.example").await, Some(2));
    assert_eq!(server.hits(), 1);
    assert_eq!(bench.redis.cli(&["-n", "3", "dbsize"]), "3");
}

#[tokio::test]
async fn it_is_reached_by_sentinel_and_over_tls() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let sentinel = RedisServer::start_sentinel(&bench.redis, "main");
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    let server = bench.started_with(&url, &PATIENT).await;
    server.follow().await;
    server.usable().await;
    server.fill("a.example").await;
    assert_eq!(server.serves("a.example").await, Some(1));
    assert_eq!((server.hits(), bench.entries()), (1, 2));

    let ca = sekisho_testkit::TestCa::new();
    let args = ["--tls-auth-clients", "no"];
    let bench = Bench::on(RedisServer::start_tls(&ca, &args));
    bench.put("a.example", 1).await;
    let root = bench.redis.path("ca.pem");
    let url = format!("rediss://127.0.0.1:PORT/0?ca={}", root.display());
    let server = bench.started_with(&url, &PATIENT).await;
    server.follow().await;
    server.usable().await;
    server.fill("a.example").await;
    assert_eq!(server.serves("a.example").await, Some(1));
    assert_eq!(server.hits(), 1);
}
