#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use sekisho_testkit::{Key, Pair, TestCa};

use super::*;
use crate::credential::{KeyType, Secret};

static CA: LazyLock<TestCa> = LazyLock::new(TestCa::new);

fn pair() -> Pair {
    CA.issue(&["a.test"], Key::P256)
}

fn stored(pair: &Pair, version: u64) -> StoredCredential<OpenKey> {
    StoredCredential {
        id: CredentialId::from_u64(1),
        version,
        key_type: KeyType::Ecdsa,
        chain: pair.chain.clone(),
        key: OpenKey::unproved(Secret::new(pair.key_der().secret_der().to_vec())),
        not_before: 0,
        not_after: i64::MAX,
        origin: None,
    }
}

/// A load that began before a restore of the store may leave a credential
/// whose version a credential of the restored log repeats.
#[test]
fn an_equal_version_of_another_log_is_not_taken_for_it() {
    let interner = Arc::new(Interner::default());
    let (before, after) = (pair(), pair());
    let old = interner.intern(stored(&before, 305), 1).unwrap();
    let new = interner.intern(stored(&after, 305), 1).unwrap();
    assert_eq!(new.certified().cert, after.chain);
    assert!(is_superseded(&old) && !is_superseded(&new));
}

#[test]
fn what_a_later_epoch_read_is_newer_whatever_its_version() {
    let interner = Arc::new(Interner::default());
    let (before, after) = (pair(), pair());
    let old = interner.intern(stored(&before, 305), 1).unwrap();
    let new = interner.intern(stored(&after, 100), 2).unwrap();
    assert!(is_superseded(&old) && !is_superseded(&new));
    // A load of the former epoch ends late.
    let late = interner.intern(stored(&before, 305), 1).unwrap();
    assert!(is_superseded(&late) && !is_superseded(&new));
    interner.supersede(CredentialId::from_u64(1), 2, 101);
    assert!(is_superseded(&new));
}

#[test]
fn what_two_epochs_read_alike_is_one_copy_of_the_later() {
    let interner = Arc::new(Interner::default());
    let pair = pair();
    let old = interner.intern(stored(&pair, 305), 1).unwrap();
    let new = interner.intern(stored(&pair, 305), 2).unwrap();
    assert!(Arc::ptr_eq(&old, &new));
    interner.supersede(CredentialId::from_u64(1), 2, 300);
    assert!(!is_superseded(&new), "the change was in what was read");
    interner.supersede(CredentialId::from_u64(1), 2, 306);
    assert!(is_superseded(&new));
}

#[test]
fn two_loads_at_once_leave_one_copy() {
    let interner = Arc::new(Interner::default());
    let pair = pair();
    let forms: Vec<_> = std::thread::scope(|scope| {
        let load = || interner.intern(stored(&pair, 1), 1).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for form in &forms {
        assert!(!is_superseded(form) && Arc::ptr_eq(form, &forms[0]));
    }
    drop(forms);
    assert_eq!(interner.len(), 0, "none is kept alive");
}

fn is_superseded(credential: &LoadedCredential) -> bool {
    credential.superseded.load(Ordering::Relaxed)
}
