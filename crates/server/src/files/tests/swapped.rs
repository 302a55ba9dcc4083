//! Tests roots that a link replaces while the server runs.

use super::*;
use crate::site::{Allowed, OwnFiles};

/// Returns the root of a host record below the fixture's folder.
fn root_of_record(fixture: &Fixture, name: &str) -> Root {
    let text = fixture.root().join(name);
    Root::of_record(Template::parse(text.to_str().unwrap(), &[]).unwrap())
}

/// Makes a fixture whose list of folders is one entry below its folder.
fn allow(entry: &str) -> Fixture {
    let mut fixture = Fixture::new();
    let entry = fixture.root().join(entry);
    let allowed = Allowed::parse(&[entry.to_str().unwrap()], Path::new("/")).unwrap();
    let guard = Guard::new(allowed, OwnFiles::default());
    fixture.files = Files::new(1 << 20, Arc::new(guard));
    fixture
}

#[tokio::test]
async fn a_file_in_memory_is_gone_once_its_root_leads_elsewhere() {
    pause();
    let fixture = allow("{tenant}");
    fixture.write("acme/public/page.txt", "acme");
    fixture.write("other/page.txt", "other");
    let public = root_of_record(&fixture, "acme/public");
    let fetch = async || fixture.fetch_below(&public, "a.example", "/page.txt").await;
    assert_eq!(fetch().await.1, b"acme");

    let path = fixture.root().join("acme/public");
    fs::rename(&path, fixture.root().join("acme/before")).unwrap();
    symlink(fixture.root().join("other"), &path).unwrap();
    advance(Duration::from_secs(2)).await;
    // What was read before is served once more, and judged meanwhile.
    assert_eq!(fetch().await.1, b"acme");
    fixture.settled().await;
    assert_eq!(fetch().await.0, 503);
    assert_eq!(fixture.files.guard().refused().links.get(), 2);

    fs::remove_file(&path).unwrap();
    symlink("before", &path).unwrap();
    assert_eq!(fetch().await.1, b"acme");
}

#[tokio::test]
async fn a_file_in_memory_of_one_root_is_not_served_below_another_with_less_trust() {
    pause();
    let fixture = Fixture::new();
    fixture.write("other/page.txt", "other");
    fs::create_dir(fixture.root().join("acme")).unwrap();
    symlink("../other", fixture.root().join("acme/site")).unwrap();
    let text = fixture.root().join("acme/site");
    let of_operator = root(text.to_str().unwrap());
    let fetch = async |root: &Root| fixture.fetch_below(root, "a.example", "/page.txt").await;
    assert_eq!(fetch(&of_operator).await.1, b"other");

    // The same path, of which a tenant chose the last component.
    let text = fixture.root().join("{tenant}/site");
    let template = Template::parse(text.to_str().unwrap(), &["{tenant}"]).unwrap();
    let acme = Tenant::parse("acme").unwrap();
    let mut of_tenant = Root::of_operator(template);
    of_tenant.template.fill_tenant(&acme).unwrap();
    assert_eq!(of_tenant.template, of_operator.template);
    assert_eq!(fetch(&of_tenant).await.0, 503);
    assert_eq!(fetch(&of_operator).await.1, b"other");
}
