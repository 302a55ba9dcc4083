//! Credentials that are known to be replaced, across restarts of the log: none
//! is served on when the store fails, since a key that leaked is replaced so.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::store::{LogId, LogPosition, Subject};
use sekisho_certs::{CredentialId, KeyType, Outcome};
use sekisho_testkit::Key;
use tokio::time::{advance, pause};

use crate::scripted::{
    CA, LOG, Names, ask, change_of, credential, host_version, pattern, store, watched,
};

const ID: u64 = 9;

/// Applies that the credential was replaced, as change `number` of `log`.
fn replace(lookup: &Arc<Names>, log: LogId, number: u64) {
    let subject = Subject::Credential(CredentialId::from_u64(ID));
    lookup.apply(&change_of(log, number, subject));
}

async fn fails(lookup: &Arc<Names>, name: &str) -> bool {
    matches!(ask(lookup, name).await, Outcome::Failed(_))
}

#[tokio::test]
async fn a_credential_replaced_after_a_gap_is_not_served_on() {
    let store = store();
    store.put(host_version("a.test", ID, 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    replace(&lookup, LOG, 101);
    store.fail(true);
    assert!(fails(&lookup, "a.test").await);
}

#[tokio::test]
async fn a_restored_log_may_count_lower_than_what_it_replaces() {
    let store = store();
    store.put(host_version("a.test", ID, 305));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    let log = LogId([8; 16]);
    lookup.restart(LogPosition {
        log,
        number: 100,
        mark: 0,
    });
    replace(&lookup, log, 101);
    store.fail(true);
    assert!(fails(&lookup, "a.test").await);
}

#[tokio::test]
async fn a_credential_replaced_before_a_gap_stays_replaced() {
    let store = store();
    store.put(host_version("a.test", ID, 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    replace(&lookup, LOG, 50);
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    store.fail(true);
    assert!(fails(&lookup, "a.test").await);
}

#[tokio::test]
async fn a_credential_that_one_host_found_replaced_is_so_for_all() {
    let store = store();
    for name in ["a.test", "b.test"] {
        store.put(host_version(name, ID, 5));
    }
    let lookup = watched(&store);
    for name in ["a.test", "b.test"] {
        assert_eq!(pattern(&lookup, name).await, name);
    }
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    store.put(host_version("a.test", ID, 70));
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    store.fail(true);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert!(fails(&lookup, "b.test").await);
}

#[tokio::test]
async fn a_gap_without_a_replacement_keeps_one_copy() {
    let store = store();
    for name in ["a.test", "b.test"] {
        store.put(host_version(name, ID, 5));
    }
    let lookup = watched(&store);
    let Outcome::Found(old) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    let Outcome::Found(new) = ask(&lookup, "b.test").await else {
        panic!("not found")
    };
    assert!(Arc::ptr_eq(
        &old.host().credentials[0],
        &new.host().credentials[0]
    ));
    store.fail(true);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
}

/// Connections compare what they hold by position alone: a restored log that
/// repeats a version must move it.
#[tokio::test]
async fn another_chain_of_an_equal_version_moves_connections() {
    pause();
    let store = store();
    store.put(host_version("a.test", ID, 305));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    let log = LogId([8; 16]);
    lookup.restart(LogPosition {
        log,
        number: 305,
        mark: 0,
    });
    store.fail(true);
    let revision = lookup.revision();
    let Outcome::Found(stale) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    assert!(lookup.is_current(&stale, revision));
    store.fail(false);
    let mut restored = host_version("a.test", ID, 305);
    let pair = CA.issue(&["a.test"], Key::P256);
    restored.credentials = vec![credential(&pair, KeyType::Ecdsa, ID, 305)];
    store.put(restored);
    // A store that has just failed is left alone for a second.
    advance(Duration::from_secs(2)).await;
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert!(!lookup.is_current(&stale, revision));
}
