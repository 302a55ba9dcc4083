//! Tests that sites serve neither roots outside of what the operator chose nor the
//! server's own files.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{Running, Scripted, Setup, host, start};
use sekisho_certs::{Site, Tenant};
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
        Self::allowing(&["srv", "etc"], root_of_site)
    }

    fn allowing(allow: &[&str], root_of_site: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (file, text) in [
            ("etc/sekisho.toml", "configuration"),
            ("etc/master.key", "secret"),
            ("etc/backup.db", "hosts"),
            ("etc/www/index.html", "page beside"),
            ("srv/a/index.html", "page of a"),
            ("srv/acme/app/index.html", "page of acme"),
            ("srv/other/app/index.html", "page of other"),
            ("srv/certs/a.key", "key"),
            ("other/index.html", "elsewhere"),
        ] {
            fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            fs::write(path(file), text).unwrap();
        }
        let ca = TestCa::new();
        let setup = Setup {
            site: operators_site(&path(root_of_site)),
            allow: allow.iter().map(|entry| path(entry)).collect(),
            own: vec![path("etc/sekisho.toml"), path("etc/master.key")],
            keys: vec![path("srv/certs")],
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
        self.add_of("", name, root);
    }

    fn add_of(&self, tenant: &str, name: &str, root: Option<&Path>) {
        let pair = self.ca.issue(&[name], Key::P256);
        let mut found = host(name, &[(&pair, Key::P256)]);
        found.record.tenant = Tenant::parse(tenant).unwrap();
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

    /// Puts a link to `target` in the place of `link`.
    fn replace(&self, link: &str, target: &Path) {
        let link = self.path(link);
        match link.is_symlink() {
            true => fs::remove_file(&link).unwrap(),
            false => fs::remove_dir_all(&link).unwrap(),
        }
        symlink(target, link).unwrap();
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
    assert_eq!(fixture.refused().links.get(), 2);
    // Another folder of the list is none of the one that holds the root.
    fs::remove_file(&site).unwrap();
    symlink(fixture.path("etc"), &site).unwrap();
    assert_eq!(fixture.get("a.example", "/www/").await.0, 503);
    assert_eq!(fixture.refused().links.get(), 3);
}

#[tokio::test]
async fn a_record_serves_nothing_beside_the_servers_own_files() {
    let fixture = Fixture::new("other");
    fixture.add("a.example", Some(&fixture.path("etc")));
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
    // The operator named this very folder.
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

#[tokio::test]
async fn a_tenants_folder_of_the_operators_site_serves_nothing_beside_own_files() {
    let fixture = Fixture::new("{tenant}");
    fixture.add_of("etc", "a.example", None);
    for file in ["/master.key", "/backup.db"] {
        assert_eq!(fixture.get("a.example", file).await.0, 503, "{file}");
    }
    assert_eq!(fixture.refused().own_files.get(), 2);
    let below = fixture.get("a.example", "/www/").await;
    assert_eq!(below, (200, "page beside".into()));
}

/// Lets tenant acme replace `srv/acme/app`, the root of a.example, by links. What was read
/// may stay in memory for some seconds: each file is asked for once.
async fn a_link_leads_out_of_no_tenant(fixture: &Fixture) {
    let acme = (200, "page of acme".to_owned());
    assert_eq!(fixture.get("a.example", "/").await, acme);
    let outside = [
        PathBuf::from("/"),
        PathBuf::from("../other/app"),
        fixture.path("srv/other/app"),
        fixture.path("other"),
        fixture.path("srv"),
    ];
    for target in outside {
        fixture.replace("srv/acme/app", &target);
        for file in ["/index.html", "/etc/passwd", "/other/app/index.html"] {
            let answer = fixture.get("a.example", file).await;
            assert_eq!(answer.0, 503, "{target:?} {file}");
        }
    }
    assert_eq!(fixture.refused().links.get(), 15);
    fs::create_dir_all(fixture.path("srv/acme/v1")).unwrap();
    for (name, target) in [
        ("relative", PathBuf::from("v1")),
        ("absolute", fixture.path("srv/acme/v1")),
    ] {
        fs::write(fixture.path("srv/acme/v1").join(name), name).unwrap();
        fixture.replace("srv/acme/app", &target);
        let answer = fixture.get("a.example", &format!("/{name}")).await;
        assert_eq!(answer, (200, name.to_owned()));
    }
}

#[tokio::test]
async fn a_tenant_that_replaces_its_folder_of_the_operators_site_leaves_no_tenant() {
    let fixture = Fixture::new("srv/{tenant}/app");
    fixture.add_of("acme", "a.example", None);
    a_link_leads_out_of_no_tenant(&fixture).await;
    // The tenant's folder itself is the operator's: that may be a link.
    fixture.replace("srv/acme", &fixture.path("srv/other"));
    let served = fixture.get("a.example", "/index.html").await;
    assert_eq!(served, (200, "page of other".into()));
}

#[tokio::test]
async fn a_tenant_that_replaces_the_root_of_its_record_leaves_no_tenant() {
    for entry in ["srv/{tenant}", "srv/{tenant}/app"] {
        let fixture = Fixture::allowing(&[entry], "other");
        let root = fixture.path("srv/acme/app");
        fixture.add_of("acme", "a.example", Some(&root));
        a_link_leads_out_of_no_tenant(&fixture).await;
    }
}

#[tokio::test]
async fn an_entry_with_a_tenant_holds_the_folders_of_that_tenant_alone() {
    let fixture = Fixture::allowing(&["srv/{tenant}"], "other");
    let root = fixture.path("srv/acme/app");
    for (tenant, name, status) in [
        ("acme", "a.example", 200),
        ("other", "b.example", 503),
        ("", "c.example", 503),
        ("acme/app", "d.example", 503),
    ] {
        fixture.add_of(tenant, name, Some(&root));
        assert_eq!(fixture.get(name, "/").await.0, status, "{tenant}");
    }
    assert_eq!(fixture.refused().outside_allow.get(), 3);
}

#[tokio::test]
async fn an_entry_without_a_tenant_bounds_links_by_itself_alone() {
    let fixture = Fixture::allowing(&["srv", "etc"], "other");
    let root = fixture.path("srv/acme/app");
    fixture.add_of("acme", "a.example", Some(&root));
    fixture.replace("srv/acme/app", &fixture.path("srv/other/app"));
    let served = fixture.get("a.example", "/").await;
    assert_eq!(served, (200, "page of other".into()));
    fixture.replace("srv/acme/app", &fixture.path("etc/www"));
    assert_eq!(fixture.get("a.example", "/index.html").await.0, 503);
}

#[tokio::test]
async fn no_site_serves_a_folder_with_keys() {
    let fixture = Fixture::new("srv/{tenant}");
    // By text: the record's site is refused as a whole.
    for (name, root) in [
        ("a.example", "srv/certs"),
        ("b.example", "srv"),
        ("c.example", "srv/certs/below"),
    ] {
        fixture.add(name, Some(&fixture.path(root)));
        assert_eq!(fixture.get(name, "/certs/a.key").await.0, 503, "{root}");
        assert_eq!(fixture.get(name, "/a.key").await.0, 503, "{root}");
        assert_eq!(fixture.get(name, "/a/").await.0, 503, "{root}");
    }
    // By device and inode, wherever links lead.
    fixture.add("d.example", Some(&fixture.path("srv/a")));
    fixture.replace("srv/a", &fixture.path("srv/certs"));
    assert_eq!(fixture.get("d.example", "/a.key").await.0, 503);
    fixture.add_of("certs", "e.example", None);
    assert_eq!(fixture.get("e.example", "/a.key").await.0, 503);
    // A deployment puts another folder there.
    fs::rename(fixture.path("srv/certs"), fixture.path("srv/old")).unwrap();
    fs::rename(fixture.path("srv/other"), fixture.path("srv/certs")).unwrap();
    assert_eq!(fixture.get("e.example", "/app/").await.0, 503);
    // Three records and three requests.
    assert_eq!(fixture.refused().own_files.get(), 6);
}
