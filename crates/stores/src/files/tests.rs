use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use sekisho_testkit::{Key, Pair, TestCa};

use super::*;
use sekisho_certs::credential::KeyType;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::Found;

struct Folder {
    root: tempfile::TempDir,
    ca: TestCa,
    store: Files,
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Files::new(Pattern::parse("live/{host}", root.path()).unwrap()).unwrap();
        fs::create_dir(root.path().join("live")).unwrap();
        fs::write(root.path().join("live/README"), "as certbot has it").unwrap();
        Self {
            store,
            ca: TestCa::new(),
            root,
        }
    }

    fn of(&self, stem: &str) -> PathBuf {
        self.root.path().join("live").join(stem)
    }

    fn put(&self, stem: &str, key: Key) -> Pair {
        let pair = self.ca.issue(&["a.example"], key);
        self.write(stem, &pair.chain_pem(), &pair.key_pem());
        pair
    }

    fn write(&self, stem: &str, chain: &str, key: &str) {
        fs::create_dir_all(self.of(stem)).unwrap();
        fs::write(self.of(stem).join("fullchain.pem"), chain).unwrap();
        fs::write(self.of(stem).join("privkey.pem"), key).unwrap();
    }

    async fn find(&self, name: &str) -> Result<Answer<OpenKey>> {
        self.store.find(&HostName::parse(name).unwrap()).await
    }

    async fn found(&self, name: &str) -> Found<OpenKey> {
        match self.find(name).await.unwrap() {
            Answer {
                found: Some(found), ..
            } => *found,
            Answer { found: None, .. } => panic!("{name} is absent"),
        }
    }

    async fn corrupt(&self, name: &str) {
        let error = self.find(name).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{name}: {error}");
    }

    async fn absent(&self, name: &str) -> bool {
        self.find(name).await.unwrap().found.is_none()
    }
}

#[tokio::test]
async fn finds_exact_before_wildcard() {
    let folder = Folder::new();
    let wildcard = folder.put("_.example.com", Key::P256);
    let exact = folder.put("a.example.com", Key::Rsa2048);
    let found = folder.found("b.example.com").await;
    assert_eq!(found.record.pattern.as_str(), "*.example.com");
    assert_eq!(found.credentials[0].chain, wildcard.chain);
    assert!(found.shadowed && found.fresh_for.is_none());
    let found = folder.found("a.example.com").await;
    assert_eq!(found.record.pattern.as_str(), "a.example.com");
    assert_eq!(found.credentials[0].chain, exact.chain);
    assert_eq!(found.credentials[0].key_type, KeyType::Rsa);
    let key = found.credentials[0].key.secret();
    assert_eq!(key.expose(), exact.key_der().secret_der());
    assert!(folder.absent("a.b.example.com").await);
    assert!(folder.absent("example.com").await);
}

#[tokio::test]
async fn every_type_of_key_and_links_are_read() {
    let folder = Folder::new();
    for (name, key) in [
        ("p256", Key::P256),
        ("p384", Key::P384),
        ("ed", Key::Ed25519),
        ("rsa", Key::Rsa2048),
    ] {
        let archive = format!("archive-{name}");
        let pair = folder.put(&archive, key);
        symlink(folder.of(&archive), folder.of(&format!("{name}.example"))).unwrap();
        let found = folder.found(&format!("{name}.example")).await;
        assert_eq!(found.credentials[0].chain, pair.chain);
        assert_eq!(found.record.references.iter().count(), 1);
    }
}

#[tokio::test]
async fn a_renewal_is_another_version() {
    let folder = Folder::new();
    folder.put("a.example", Key::P256);
    let before = folder.found("a.example").await;
    let again = folder.found("a.example").await;
    assert_eq!(before.record, again.record);
    folder.put("a.example", Key::P256);
    let after = folder.found("a.example").await;
    assert_ne!(before.credentials[0].id, after.credentials[0].id);
    assert_ne!(before.record.version, after.record.version);
}

#[tokio::test(start_paused = true)]
async fn half_a_pair_is_failed_and_not_absent() {
    let folder = Folder::new();
    for (missing, there) in [
        ("privkey.pem", "fullchain.pem"),
        ("fullchain.pem", "privkey.pem"),
    ] {
        folder.put("a.example", Key::P256);
        fs::remove_file(folder.of("a.example").join(missing)).unwrap();
        let error = folder.find("a.example").await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Corrupt(_)), "{text}");
        assert!(text.contains(there) && text.contains(missing), "{text}");
        assert!(text.contains("host a.example"), "{text}");
    }
    fs::remove_dir_all(folder.of("a.example")).unwrap();
    assert!(folder.absent("a.example").await);
}

/// A renewal that is half done when the store looks: the old key lies beside
/// the new chain, and is replaced before, during or after the first look.
#[tokio::test]
async fn a_pair_is_never_mixed() {
    for key in [Key::P256, Key::Ed25519, Key::Rsa2048] {
        let folder = Folder::new();
        let old = folder.put("a.example", key);
        let new = folder.ca.issue(&["a.example"], key);
        folder.write("a.example", &new.chain_pem(), &old.key_pem());
        let renewed = folder.of("a.example/new");
        fs::write(&renewed, new.key_pem()).unwrap();

        let (found, ()) = tokio::join!(folder.found("a.example"), async {
            fs::rename(&renewed, folder.of("a.example/privkey.pem")).unwrap();
        });
        assert_eq!(found.credentials[0].chain, new.chain);
        let read = found.credentials[0].key.secret();
        assert_eq!(read.expose(), new.key_der().secret_der());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pair_that_stays_wrong_says_why() {
    let folder = Folder::new();
    let one = folder.put("a.example", Key::P256);
    let other = folder.ca.issue(&["a.example"], Key::P256);
    for (chain, key, wanted) in [
        (one.chain_pem(), other.key_pem(), "does not belong"),
        (String::new(), one.key_pem(), "no certificate"),
        (one.chain_pem()[..200].to_owned(), one.key_pem(), "was cut"),
        (one.chain_pem(), "-".repeat(2 << 20), "over 1 MiB"),
    ] {
        folder.write("a.example", &chain, &key);
        let error = folder.find("a.example").await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(error.to_string().contains("a.example/"), "{error}");
    }
    folder.write("a.example", "", "");
    fs::remove_file(folder.of("a.example/fullchain.pem")).unwrap();
    fs::create_dir(folder.of("a.example/fullchain.pem")).unwrap();
    let error = folder.find("a.example").await.unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");
}

#[tokio::test]
async fn a_chain_in_the_wrong_order_is_repaired() {
    let folder = Folder::new();
    let pair = folder.put("a.example", Key::P256);
    let chain = pair.chain_pem().replace(&pair.leaf_pem(), "") + &pair.leaf_pem();
    folder.write("a.example", &chain, &pair.key_pem());
    let found = folder.found("a.example").await;
    assert_eq!(found.credentials[0].chain, pair.chain);
}

#[tokio::test]
async fn expired_ones_are_served_on() {
    let folder = Folder::new();
    for (key, name) in [(Key::P256, "a.example"), (Key::Ed25519, "b.example")] {
        let dates = ((2019, 1, 1), (2020, 1, 1));
        let old = folder.ca.issue_valid(&[name], key, dates.0, dates.1);
        folder.write(name, &old.chain_pem(), &old.key_pem());
        assert_eq!(folder.found(name).await.credentials[0].chain, old.chain);
    }
}

#[tokio::test]
async fn a_missing_folder_is_unavailable_and_not_absent() {
    let folder = Folder::new();
    assert!(folder.absent("a.example").await);
    fs::remove_dir_all(folder.root.path().join("live")).unwrap();
    let error = folder.find("a.example").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    fs::write(folder.root.path().join("live"), "").unwrap();
    let error = folder.find("a.example").await.unwrap_err();
    assert!(error.to_string().contains("is no folder"), "{error}");
}

/// Found by review: what lies below a mount point that is not mounted is an
/// empty folder, and every host became absent.
#[tokio::test]
async fn an_empty_folder_is_unavailable_and_not_absent() {
    let folder = Folder::new();
    fs::remove_file(folder.of("README")).unwrap();
    for _ in 0..2 {
        let error = folder.find("a.example").await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("is empty"), "{error}");
        folder.put("a.example", Key::P256);
        folder.found("a.example").await;
        assert!(folder.absent("b.example").await);
        fs::remove_dir_all(folder.of("a.example")).unwrap();
    }
}

/// The folder below a mount point may hold something, too.
#[tokio::test]
async fn another_folder_is_unavailable_until_a_known_host_is_in_it() {
    for found_before in [true, false] {
        let folder = Folder::new();
        folder.put("a.example", Key::P256);
        match found_before {
            true => drop(folder.found("a.example").await),
            false => assert!(folder.absent("b.example").await),
        }
        let live = folder.root.path().join("live");
        let aside = folder.root.path().join("aside");
        fs::rename(&live, &aside).unwrap();
        fs::create_dir(&live).unwrap();
        fs::write(live.join("not-mounted"), "").unwrap();
        for name in ["a.example", "b.example"] {
            let error = folder.find(name).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            assert!(error.to_string().contains("another folder"), "{error}");
        }
        // Mounted again.
        fs::remove_dir_all(&live).unwrap();
        fs::rename(&aside, &live).unwrap();
        assert!(folder.absent("b.example").await);
        folder.found("a.example").await;
        // Replaced by a newer copy, in which the known host is.
        fs::rename(&live, &aside).unwrap();
        fs::create_dir(&live).unwrap();
        fs::rename(aside.join("a.example"), folder.of("a.example")).unwrap();
        assert!(folder.absent("b.example").await);
    }
}

/// Found by review: ten handshakes for such a host opened the breaker for all.
#[tokio::test]
async fn what_lies_in_one_hosts_place_blames_that_host() {
    let folder = Folder::new();
    let chain = folder.of("a.example/fullchain.pem");
    let replaced = || {
        folder.put("a.example", Key::P256);
        fs::remove_file(&chain).unwrap();
    };
    replaced();
    symlink(&chain, &chain).unwrap();
    folder.corrupt("a.example").await;
    fs::remove_file(&chain).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&chain).unwrap();
    folder.corrupt("a.example").await;
    // A folder that is its own target, for the name or for the wildcard.
    symlink(folder.of("_.b.example"), folder.of("_.b.example")).unwrap();
    folder.corrupt("c.b.example").await;
}

/// A client picks the name: what no file system can hold is absent, so that
/// it opens no breaker.
#[tokio::test]
async fn names_that_no_file_can_have_are_absent() {
    let folder = Folder::new();
    fs::write(folder.of("readme"), "no folder").unwrap();
    assert!(folder.absent("readme").await);
    let root = folder.root.path();
    let flat =
        Files::new(Pattern::parse("live/{host}.crt,live/{host}.key", root).unwrap()).unwrap();
    let long = format!("{}.examplexx", ["a".repeat(60).as_str(); 4].join("."));
    let name = HostName::parse(&long).unwrap();
    assert!(matches!(
        flat.find(&name).await,
        Ok(Answer { found: None, .. })
    ));
}

#[tokio::test]
async fn a_fifo_keeps_no_thread() {
    let folder = Folder::new();
    folder.put("a.example.com", Key::P256);
    let key = folder.of("a.example.com").join("privkey.pem");
    fs::remove_file(&key).unwrap();
    let made = Command::new("mkfifo").arg(&key).status();
    assert!(made.unwrap().success());
    folder.put("b.example.com", Key::P256);
    for _ in 0..8 {
        let found = folder.find("a.example.com").await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
    }
    folder.found("b.example.com").await;
}
