//! Tests disks that are busy, and roots whose reads hang: each read keeps its permit.

use std::task::{Context, Waker};

use super::super::reads::{MAX_WAITING, OF_FOLDER};
use super::*;

/// Takes every permit of a tenant's folder, as hung reads do.
fn hang(fixture: &Fixture, root: &Root, host: &str, tenant: &Tenant) -> Vec<ReadPermit> {
    let host = &HostName::parse(host).unwrap();
    let folder = Folder { root, host, tenant };
    let reads = fixture.files.0.reads.of(folder);
    std::iter::from_fn(|| reads.try_permit()).collect()
}

#[tokio::test]
async fn another_root_is_read_and_what_is_in_memory_is_served() {
    pause();
    let fixture = Fixture::new();
    fixture.write("hung/page.txt", "page");
    fixture.write("hung/folder/index.html", "index");
    fixture.write("well/page.txt", "well");
    let [hung, well] = ["hung", "well"].map(|name| {
        let path = fixture.root().join(name);
        root(path.to_str().unwrap())
    });
    let fetch = |root, path| fixture.fetch_below(root, "a.example", path);
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"page");
    assert_eq!(fetch(&hung, "/folder").await.0, 308);
    assert_eq!(fetch(&hung, "/missing.txt").await.0, 404);

    let held = hang(&fixture, &hung, "a.example", &Tenant::default());
    advance(Duration::from_secs(3600)).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(fetch(&well, "/page.txt").await.1, b"well");
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"page");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // An old directory or absence may be a file by now.
    for path in ["/folder", "/missing.txt", "/other.txt"] {
        assert_eq!(fetch(&hung, path).await.0, 503, "{path}");
    }

    drop(held);
    fixture.write("hung/page.txt", "other");
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"other");
}

#[tokio::test]
async fn a_busy_disk_refuses_in_the_end_but_not_what_is_in_memory() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.write("other.txt", "two");
    fixture.fetch("/page.txt").await;
    let stuck = fixture.files.0.reads.hold_all();
    assert_eq!(stuck.len(), READS_IN_FLIGHT);
    advance(Duration::from_secs(5)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
    let started = tokio::time::Instant::now();
    assert_eq!(fixture.fetch("/other.txt").await.0, 503);
    assert!(started.elapsed() >= READ_WAIT);
}

#[tokio::test]
async fn what_is_in_memory_is_served_where_too_many_reads_wait() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.write("other.txt", "two");
    fixture.fetch("/page.txt").await;
    let (root, tenant) = (root(fixture.root().to_str().unwrap()), Tenant::default());
    let _held = hang(&fixture, &root, "a.example", &tenant);
    let host = &HostName::parse("a.example").unwrap();
    let (root, tenant) = (&root, &tenant);
    let reads = fixture.files.0.reads.of(Folder { root, host, tenant });
    let mut context = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(reads.permit())).collect();
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    advance(Duration::from_secs(3600)).await;
    let started = tokio::time::Instant::now();
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
    assert_eq!(fixture.fetch("/other.txt").await.0, 503);
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// Hangs `roots` of tenant acme, for several hosts, and lets requests wait for them. Files
/// of another tenant must be read meanwhile.
async fn leaves_others_out_of_it(roots: &[String], hosts: usize) {
    pause();
    let fixture = Fixture::new();
    fixture.write("well/page.txt", "well");
    let [acme, other] = ["acme", "other"].map(|name| Tenant::parse(name).unwrap());
    let at = |name: &str| root(fixture.root().join(name).to_str().unwrap());
    let hung: Vec<_> = roots.iter().map(|name| at(name)).collect();
    let hosts: Vec<_> = (0..hosts).map(|n| format!("{n}.example")).collect();
    let pairs = || {
        hung.iter()
            .flat_map(|root| hosts.iter().map(move |host| (root, host)))
    };
    let held: Vec<_> = pairs()
        .flat_map(|(root, host)| hang(&fixture, root, host, &acme))
        .collect();
    assert!(held.len() >= 2 * OF_FOLDER, "{}", held.len());
    let waiting = pairs().flat_map(|pair| [pair; 2 * OF_FOLDER]);
    let waiting =
        waiting.map(|(root, host)| fixture.answer_tenant(root, (host, &acme), "/page.txt"));
    let waiting = futures_util::future::join_all(waiting);
    let well = at("well");
    let served = async {
        // The others wait by now.
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        let response = fixture
            .answer_tenant(&well, ("b.example", &other), "/page.txt")
            .await;
        (response.status(), begun.elapsed())
    };
    let (waited, (status, took)) = tokio::join!(waiting, served);
    assert_eq!(status, 200);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(waited.iter().all(|response| response.status() == 503));
    drop(held);
}

#[tokio::test]
async fn the_roots_of_a_tenant_keep_no_other_tenants_files_out() {
    // As many as could take every permit.
    let roots = 0..READS_IN_FLIGHT / OF_FOLDER;
    let roots: Vec<_> = roots.map(|n| format!("hung{n}")).collect();
    leaves_others_out_of_it(&roots, 1).await;
}

#[tokio::test]
async fn two_templates_of_a_tenant_keep_no_other_tenants_files_out() {
    leaves_others_out_of_it(&["mnt/{host}".into(), "nfs/{host}".into()], 8).await;
}
