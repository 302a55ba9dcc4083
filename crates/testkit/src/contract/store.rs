//! The sentences of [`sekisho_certs::Store`], which hold for a catalog too.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use super::fixture::{Finder, Fixture, pattern, put_host, record, record_of};
use sekisho_certs::credential::KeyType;
use sekisho_certs::host::HostName;
use sekisho_certs::record::Tenant;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{Answer, Precondition, Write};

pub async fn absent_only_if_neither_is_there<K>(names: impl Into<Finder<K>>) {
    let names = names.into();
    assert_eq!(names.answering("a.example.com").await, None);
    (names.put)("a.example.com").await;
    let exact = Some(pattern("a.example.com"));
    assert_eq!(names.answering("a.example.com").await, exact);
    assert_eq!(names.answering("b.example.com").await, None);
    assert_eq!(names.answering("example.com").await, None);
    assert_eq!(names.answering("com").await, None);
    (names.put)("*.example.com").await;
    let wildcard = Some(pattern("*.example.com"));
    assert_eq!(names.answering("b.example.com").await, wildcard);
    assert_eq!(names.answering("a.example.com").await, exact);
    // A wildcard stands for one label, neither none nor two.
    assert_eq!(names.answering("example.com").await, None);
    assert_eq!(names.answering("a.b.example.com").await, None);
}

pub async fn exact_comes_before_wildcard(fixture: Fixture) {
    fixture.put("*.example.com").await;
    let bare = record("bare.example.com", &[]);
    let mut off = record("off.example.com", &[]);
    off.disabled = true;
    let writes = vec![put_host(bare.clone()), put_host(off)];
    fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap();
    let found = fixture.find("bare.example.com").await.unwrap();
    assert_eq!(found.record.pattern, bare.pattern);
    assert!(found.credentials.is_empty());
    let found = fixture.find("off.example.com").await.unwrap();
    assert!(found.record.disabled && !found.shadowed);
}

pub async fn shadowed_says_whether_exact_records_stand_below(fixture: Fixture) {
    fixture.put("*.example.com").await;
    // Beside, above and two labels below: none of them one label below.
    for other in [
        "example.com",
        "a.b.example.com",
        "a.example.org",
        "*.b.example.com",
    ] {
        fixture.put(other).await;
    }
    let shadowed = async || fixture.find("x.example.com").await.unwrap().shadowed;
    assert!(!shadowed().await);
    fixture.put("a.example.com").await;
    assert!(shadowed().await);
    let remove = Write::RemoveHost(pattern("a.example.com"), Precondition::Any);
    fixture
        .catalog
        .write(Batch::unchecked(vec![remove]))
        .await
        .unwrap();
    assert!(!shadowed().await);
}

/// Each write replaces the record, its credential and, by dropping the last
/// reference, deletes the old one: a read between two states would find a
/// credential of another state or none.
pub async fn one_call_reads_one_state(fixture: Fixture) {
    fixture.put("a.example").await;
    let fixture = Arc::new(fixture);
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (fixture, done) = (Arc::clone(&fixture), Arc::clone(&done));
        tokio::spawn(async move {
            for _ in 0..100 {
                let credential = fixture.credential();
                let mut host = record("a.example", &[(KeyType::Ecdsa, credential.id)]);
                host.tenant = Tenant::parse(&credential.id.to_string()).unwrap();
                let put = Write::PutCredential(credential, Precondition::Absent);
                fixture
                    .catalog
                    .write(Batch::unchecked(vec![put, put_host(host)]))
                    .await
                    .unwrap();
            }
            done.store(true, Ordering::SeqCst);
        })
    };
    let mut seen = 0;
    while !done.load(Ordering::SeqCst) || seen == 0 {
        let found = fixture.find("a.example").await.unwrap();
        let [credential] = &found.credentials[..] else {
            panic!("one credential: {found:?}")
        };
        let tenant = found.record.tenant.as_str();
        assert!(tenant.is_empty() || tenant == credential.id.to_string());
        seen += 1;
    }
    writer.await.unwrap();
}

pub async fn callable_from_any_runtime<K: Debug + Send + 'static>(names: impl Into<Finder<K>>) {
    let names = names.into();
    (names.put)("a.example").await;
    let name = HostName::parse("a.example").unwrap();
    // Polled once here, finished by another runtime.
    let mut begun = names.find(&name);
    let first = std::future::poll_fn(|cx| {
        Poll::Ready(match begun.as_mut().poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    });
    let first = first.await;
    let other = std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let begun = match first {
                Some(answer) => answer,
                None => begun.await,
            };
            (begun, names.find(&name).await)
        })
    });
    let joined = tokio::task::spawn_blocking(|| other.join().unwrap());
    let (begun, whole) = joined.await.unwrap();
    assert!(
        matches!(begun, Ok(Answer { found: Some(_), .. })),
        "{begun:?}"
    );
    assert!(
        matches!(whole, Ok(Answer { found: Some(_), .. })),
        "{whole:?}"
    );
}

/// In all, more than may wait in any queue.
pub async fn a_dropped_read_leaves_nothing_waiting<K: Debug>(names: impl Into<Finder<K>>) {
    let names = names.into();
    (names.put)("a.example").await;
    let name = HostName::parse("a.example").unwrap();
    for _ in 0..100 {
        for _ in 0..50 {
            begin_and_drop(names.find(&name)).await;
        }
        let answer = names.find(&name).await;
        assert!(
            matches!(answer, Ok(Answer { found: Some(_), .. })),
            "{answer:?}"
        );
    }
}

/// Whatever a dropped write did, it did whole: both records or neither.
pub async fn a_dropped_future_leaves_nothing_locked(fixture: Fixture) {
    for round in 0..50 {
        let tenant = round.to_string();
        let writes = ["a.example", "b.example"].map(|name| put_host(record_of(name, &tenant)));
        begin_and_drop(fixture.catalog.write(Batch::unchecked(writes.to_vec()))).await;
        begin_and_drop(Box::pin(fixture.find("a.example"))).await;
        let both = [pattern("a.example"), pattern("b.example")];
        let both = fixture.catalog.hosts(&both).await.unwrap();
        let tenants: Vec<_> = both.iter().map(|one| one.tenant.as_str()).collect();
        match tenants[..] {
            [] => {}
            [one, other] => assert_eq!(one, other),
            _ => panic!("half a write: {tenants:?}"),
        }
    }
    // A write that was dropped may still be under way, and be the later one.
    for _ in 0..=50 {
        let last = put_host(record_of("a.example", "last"));
        fixture
            .catalog
            .write(Batch::unchecked(vec![last]))
            .await
            .unwrap();
        let found = fixture.find("a.example").await.unwrap();
        if found.record.tenant.as_str() == "last" {
            return;
        }
    }
    panic!("more writes landed than were begun");
}

async fn begin_and_drop<F: Future + Unpin>(mut future: F) {
    std::future::poll_fn(|cx| {
        let _ = std::pin::Pin::new(&mut future).poll(cx);
        Poll::Ready(())
    })
    .await;
}
