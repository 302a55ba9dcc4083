//! Tests that sites serve neither roots outside of `[sites] allow` nor the
//! server's own files.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{Running, Scripted, Setup, host, start};
use sekisho_certs::Site;
use sekisho_server::site::{RawSite, Refusals};
use sekisho_testkit::{Key, TestCa, client};
use tempfile::TempDir;

/// Server whose own files lie in `etc`, with sites below `srv`.
struct Fixture {
    folder: TempDir,
    ca: TestCa,
    running: Running,
}

impl Fixture {
    fn new(root_of_site: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (file, text) in [
            ("etc/sekisho.toml", "configuration"),
            ("etc/master.key", "secret"),
            ("etc/backup.db", "hosts"),
            ("etc/www/index.html", "page beside"),
            ("srv/a/index.html", "page of a"),
            ("other/index.html", "elsewhere"),
        ] {
            fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            fs::write(path(file), text).unwrap();
        }
        let ca = TestCa::new();
        let setup = Setup {
            site: operators_site(&path(root_of_site)),
            allow: vec![path("srv"), path("etc")],
            own: vec![path("etc/sekisho.toml"), path("etc/master.key")],
            ..Setup::default()
        };
        let running = start(Scripted::new([]), &setup);
        Self {
            folder,
            ca,
            running,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn add(&self, name: &str, root: Option<&Path>) {
        let pair = self.ca.issue(&[name], Key::P256);
        let mut found = host(name, &[(&pair, Key::P256)]);
        found.record.site = root.map(|root| Site {
            format: 1,
            json: serde_json::json!({ "root": root }).to_string().into(),
        });
        self.running.store.put(found);
    }

    /// Returns status and body; the handshake must succeed.
    async fn get(&self, name: &str, path: &str) -> (u16, String) {
        let config = client::config(&self.ca);
        let answer = client::fetch(self.running.address, name, path, config).await;
        let answer = answer.unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (answer[9..12].parse().unwrap(), body.to_owned())
    }

    fn refused(&self) -> &Refusals {
        self.running.responder.refused()
    }
}

/// Makes the operator's site for hosts without their own.
fn operators_site(root: &Path) -> sekisho_server::site::Site {
    let raw: RawSite = serde_json::from_value(serde_json::json!({ "root": root })).unwrap();
    raw.check(Some(Path::new("/"))).unwrap()
}

#[tokio::test]
async fn a_root_outside_of_the_allowed_folders_is_not_served() {
    let fixture = Fixture::new("other");
    fixture.add("a.example", Some(&fixture.path("srv/a")));
    fixture.add("b.example", Some(&fixture.path("other")));
    fixture.add("c.example", Some(&fixture.path("srv/../other")));
    fixture.add("d.example", None);
    assert_eq!(
        fixture.get("a.example", "/").await,
        (200, "page of a".into())
    );
    assert_eq!(fixture.get("b.example", "/").await.0, 503);
    assert_eq!(fixture.get("c.example", "/").await.0, 503);
    let outside_allow = 2;
    assert_eq!(fixture.refused().outside_allow.get(), outside_allow);
    // The operator wrote `[site]`: the list does not bind it.
    assert_eq!(
        fixture.get("d.example", "/").await,
        (200, "elsewhere".into())
    );
}

#[tokio::test]
async fn a_root_that_became_a_link_is_judged_where_it_leads() {
    let fixture = Fixture::new("other");
    let site = fixture.path("srv/link");
    fixture.add("a.example", Some(&site));
    symlink(fixture.path("srv/a"), &site).unwrap();
    assert_eq!(
        fixture.get("a.example", "/").await,
        (200, "page of a".into())
    );

    fs::remove_file(&site).unwrap();
    symlink(fixture.path("other"), &site).unwrap();
    // A missing file gets the same answer.
    for file in ["/index.html", "/missing.html"] {
        assert_eq!(fixture.get("a.example", file).await.0, 503, "{file}");
    }
    assert_eq!(fixture.refused().outside_allow.get(), 2);

    fs::remove_file(&site).unwrap();
    symlink(fixture.path("etc"), &site).unwrap();
    for file in ["/master.key", "/sekisho.toml", "/backup.db"] {
        assert_eq!(fixture.get("a.example", file).await.0, 503, "{file}");
    }
    assert_eq!(fixture.refused().own_files.get(), 3);
    // Folders below the folder of the server's own files may be served.
    let below = fixture.get("a.example", "/www/").await;
    assert_eq!(below, (200, "page beside".into()));
}

#[tokio::test]
async fn the_servers_own_files_are_served_by_no_site() {
    let fixture = Fixture::new("etc");
    fixture.add("a.example", None);
    assert_eq!(fixture.get("a.example", "/backup.db").await.0, 200);
    assert_eq!(fixture.get("a.example", "/master.key").await.0, 503);
    // A rotated key is a new file.
    let fresh = fixture.path("etc/fresh");
    fs::write(&fresh, "another secret").unwrap();
    fs::rename(&fresh, fixture.path("etc/master.key")).unwrap();
    assert_eq!(fixture.get("a.example", "/master.key?").await.0, 503);

    fixture.add("b.example", Some(&fixture.path("srv/a")));
    let link = fixture.path("srv/a/innocent.txt");
    fs::hard_link(fixture.path("etc/master.key"), &link).unwrap();
    assert_eq!(fixture.get("b.example", "/innocent.txt").await.0, 503);
    assert_eq!(fixture.get("b.example", "/").await.0, 200);
}

#[tokio::test]
async fn a_file_in_memory_of_the_operators_site_is_not_served_by_a_record() {
    let fixture = Fixture::new("etc");
    // Written long enough ago to stay in memory.
    let path = fixture.path("etc/backup.db");
    let file = fs::File::options().write(true).open(path).unwrap();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    file.set_modified(then).unwrap();
    fixture.add("a.example", None);
    fixture.add("b.example", Some(&fixture.path("etc")));
    let served = fixture.get("a.example", "/backup.db").await;
    assert_eq!(served, (200, "hosts".into()));
    assert_eq!(fixture.get("b.example", "/backup.db").await.0, 503);
    assert_eq!(fixture.get("a.example", "/backup.db").await.0, 200);
}
