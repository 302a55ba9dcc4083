mod buffer;
mod coded;
mod given_back;
mod hung;
mod index;
mod pieces;
mod swapped;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use http::Request;
use http_body_util::BodyExt;
use tempfile::TempDir;
use tokio::time::{advance, pause};

use super::load::SMALL;
use super::*;
use crate::site::Template;

struct Fixture {
    folder: TempDir,
    files: Files,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self {
            folder,
            files: Files::new(1 << 20, Arc::default()),
        }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    /// Writes a file with a last write one minute ago.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write_old(&self.root().join(path), content, 60);
    }

    async fn fetch(&self, path: &str) -> (StatusCode, Vec<u8>) {
        let root = root(self.root().to_str().unwrap());
        self.fetch_below(&root, "a.example", path).await
    }

    async fn fetch_below(&self, root: &Root, host: &str, path: &str) -> (StatusCode, Vec<u8>) {
        let response = self.answer(root, host, path).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap();
        (status, body.to_bytes().to_vec())
    }

    async fn answer(&self, root: &Root, host: &str, path: &str) -> Response<Body> {
        let of = (host, &Tenant::default());
        self.answer_tenant(root, of, path).await
    }

    async fn answer_tenant(
        &self,
        root: &Root,
        (host, tenant): (&str, &Tenant),
        path: &str,
    ) -> Response<Body> {
        let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
        let host = &HostName::parse(host).unwrap();
        let Some(path) = SitePath::of_text(parts.uri.path()) else {
            return plain(StatusCode::BAD_REQUEST);
        };
        let asked = Asked {
            head: &parts,
            path: &path,
            rewritten: &path,
            options: None,
        };
        let open = Opener {
            connection: &OpenFiles::default(),
            prefix: IpAddr::from([127, 0, 0, 1]).into(),
        };
        let folder = Folder { root, host, tenant };
        self.files.respond(folder, asked, open).await
    }

    /// Finds a path of a.example, without a tenant.
    async fn find(&self, root: &Root, path: &str, noted: bool) -> Found {
        let path = SitePath::of_text(path).unwrap();
        let folder = Folder {
            root,
            host: &HostName::parse("a.example").unwrap(),
            tenant: &Tenant::default(),
        };
        let path = FilePath::parse(&path).unwrap();
        let found = self.files.find(folder, &path, Form::Plain, noted);
        found.await
    }

    /// Resolves when no read is in flight.
    async fn settled(&self) {
        while self.files.0.reads.used() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn root(text: &str) -> Root {
    Root::of_operator(Template::parse(text, &["{host}"]).unwrap())
}

fn write_old(path: &Path, content: impl AsRef<[u8]>, seconds: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    let then = SystemTime::now() - Duration::from_secs(seconds);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(then).unwrap();
}

#[tokio::test]
async fn symbolic_links_stay_below_the_root() {
    let fixture = Fixture::new();
    let (root, outside) = (fixture.root(), fixture.folder.path().join("outside"));
    write_old(&outside.join("secret.txt"), "secret", 60);
    fixture.write("real/page.txt", "page");
    let links = [
        ("absolute.txt", outside.join("secret.txt")),
        ("relative.txt", "../outside/secret.txt".into()),
        ("folder", "../outside".into()),
        ("deep", "real/../../outside".into()),
        ("absolute-inside.txt", root.join("real/page.txt")),
        ("loop", "loop".into()),
        ("dangling", "nowhere".into()),
        ("root", "/".into()),
        ("self", "/proc/self/root".into()),
    ];
    for (name, target) in &links {
        symlink(target, root.join(name)).unwrap();
    }
    symlink("real/page.txt", root.join("inside.txt")).unwrap();
    symlink("real", root.join("alias")).unwrap();
    symlink("../inside.txt", root.join("real/up.txt")).unwrap();

    for path in [
        "/absolute.txt",
        "/relative.txt",
        "/folder/secret.txt",
        "/deep/secret.txt",
        "/absolute-inside.txt",
        "/loop",
        "/loop/x",
        "/dangling",
        "/root/etc/passwd",
        "/self/etc/passwd",
        "/folder/",
        "/folder",
    ] {
        let (status, body) = fixture.fetch(path).await;
        assert_eq!(status, 404, "{path}");
        assert_eq!(body, b"404 Not Found\n", "{path}");
    }
    for path in ["/inside.txt", "/alias/page.txt", "/real/up.txt"] {
        let (status, body) = fixture.fetch(path).await;
        assert_eq!((status, body), (StatusCode::OK, b"page".to_vec()), "{path}");
    }
}

#[tokio::test]
async fn the_root_itself_may_be_a_link() {
    let fixture = Fixture::new();
    fixture.write("page.txt", "page");
    let link = fixture.folder.path().join("current");
    symlink(fixture.root(), &link).unwrap();
    let template = root(link.to_str().unwrap());
    let (status, _) = fixture
        .fetch_below(&template, "a.example", "/page.txt")
        .await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn the_host_chooses_its_folder() {
    let fixture = Fixture::new();
    fixture.write("a.example/index.html", "a");
    fixture.write("b.example/index.html", "b");
    let template = root(&format!("{}/{{host}}", fixture.root().display()));
    for _ in 0..2 {
        for (host, expected) in [("a.example", "a"), ("b.example", "b")] {
            let (status, body) = fixture.fetch_below(&template, host, "/").await;
            assert_eq!((status, body), (StatusCode::OK, expected.into()), "{host}");
        }
    }
    let (status, _) = fixture.fetch_below(&template, "c.example", "/").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn what_is_no_file_is_refused_without_waiting() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.root().join("folder")).unwrap();
    let fifo = fixture.root().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(fixture.root().join("socket")).unwrap();
    for (path, expected) in [
        ("/fifo", StatusCode::FORBIDDEN),
        ("/socket", StatusCode::FORBIDDEN),
        ("/fifo/", StatusCode::NOT_FOUND),
        ("/folder", StatusCode::PERMANENT_REDIRECT),
        ("/folder/", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(fixture.fetch(path).await.0, expected, "{path}");
    }
    let missing = root("/nonexistent/root");
    let (status, _) = fixture.fetch_below(&missing, "a.example", "/").await;
    assert_eq!(status, 404);
    let file = root(fifo.to_str().unwrap());
    let (status, _) = fixture.fetch_below(&file, "a.example", "/").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_small_file_is_served_from_memory_for_a_second() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
    fixture.write("page.txt", "other");
    advance(Duration::from_millis(900)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");

    // The stale file is served once more while it is revalidated.
    advance(Duration::from_millis(200)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
    fixture.settled().await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"other");
    let cache = &fixture.files.0.cache;
    assert_eq!((cache.hits.get(), cache.misses.get()), (3, 1));
    assert_eq!(cache.entries.len(), 1);
}

#[tokio::test]
async fn an_old_entry_is_not_served_before_it_is_checked() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.write("gone.txt", "one");
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
    assert_eq!(fixture.fetch("/gone.txt").await.1, b"one");
    fixture.write("page.txt", "other");
    fs::remove_file(fixture.root().join("gone.txt")).unwrap();
    advance(Duration::from_secs(11)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"other");
    assert_eq!(fixture.fetch("/gone.txt").await.0, 404);
    assert_eq!(fixture.files.0.cache.hits.get(), 0);
}

#[tokio::test]
async fn an_unchanged_file_is_not_read_again() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.fetch("/page.txt").await;
    let template = root(fixture.root().to_str().unwrap());
    let find = async || {
        let Found::Entry(entry) = fixture.find(&template, "/page.txt", true).await else {
            panic!("a small file has an entry");
        };
        entry
    };
    let first = find().await;
    for wait in [2, 5, 60] {
        advance(Duration::from_secs(wait)).await;
        assert!(Arc::ptr_eq(&first, &find().await), "after {wait} s");
        fixture.settled().await;
    }
    assert!(first.identity().is_some());
}

#[tokio::test]
async fn a_file_that_was_just_written_is_read_again() {
    pause();
    let fixture = Fixture::new();
    // The time lies in the future: the file stays unsettled on a slow machine.
    let path = fixture.root().join("page.txt");
    let soon = SystemTime::now() + Duration::from_secs(3600);
    for content in ["one", "two"] {
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(soon).unwrap();
        assert_eq!(fixture.fetch("/page.txt").await.1, content.as_bytes());
        advance(Duration::from_secs(20)).await;
    }
}

#[tokio::test]
async fn a_missing_file_is_found_a_second_after_it_appears() {
    pause();
    let fixture = Fixture::new();
    assert_eq!(fixture.fetch("/page.txt").await.0, 404);
    fixture.write("page.txt", "one");
    advance(Duration::from_millis(900)).await;
    assert_eq!(fixture.fetch("/page.txt").await.0, 404);
    advance(Duration::from_millis(200)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"one");
}

#[tokio::test]
async fn one_request_at_a_time_checks_again() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.fetch("/page.txt").await;
    let root = root(fixture.root().to_str().unwrap());
    let Found::Entry(entry) = fixture.find(&root, "/page.txt", true).await else {
        panic!("a small file has an entry");
    };
    let claim = entry.claim().expect("nobody checks yet");
    assert!(entry.claim().is_none());
    fixture.write("page.txt", "other");
    advance(Duration::from_secs(2)).await;
    fixture.fetch("/page.txt").await;
    fixture.settled().await;
    assert_eq!(
        fixture.fetch("/page.txt").await.1,
        b"one",
        "claimed by another"
    );
    drop(claim);
    fixture.fetch("/page.txt").await;
    fixture.settled().await;
    assert_eq!(fixture.fetch("/page.txt").await.1, b"other");
}

#[tokio::test]
async fn memory_is_bounded() {
    let fixture = Fixture::new();
    let half = usize::try_from(SMALL).unwrap() / 2;
    for n in 0..100 {
        fixture.write(&format!("{n}.bin"), vec![b'x'; half]);
        assert_eq!(fixture.fetch(&format!("/{n}.bin")).await.1.len(), half);
    }
    let entries = &fixture.files.0.cache.entries;
    assert!(entries.weight() <= entries.capacity());
    assert!(entries.len() >= 8);
}

#[tokio::test]
async fn a_file_that_grew_large_leaves_memory() {
    pause();
    let fixture = Fixture::new();
    fixture.write("page.txt", "one");
    fixture.fetch("/page.txt").await;
    let large = vec![b'x'; usize::try_from(SMALL).unwrap() + 1];
    fixture.write("page.txt", &large);
    advance(Duration::from_secs(11)).await;
    assert_eq!(fixture.fetch("/page.txt").await.1, large);
    let noted = fixture.files.0.cache.entries.weight();
    assert!(noted < 1024, "{noted}");
}

#[test]
fn a_disk_that_hangs_costs_a_503() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        pause();
        let fixture = Fixture::new();
        fixture.write("page.txt", "page");
        let (go_on, hangs) = std::sync::mpsc::channel::<()>();
        let hanging = spawn_blocking(move || hangs.recv());
        let fetch = async {
            let (status, _) = fixture.fetch("/page.txt").await;
            assert_eq!(status, 503);
        };
        let passing = async {
            tokio::task::yield_now().await;
            advance(READ_WAIT + Duration::from_secs(1)).await;
        };
        tokio::join!(fetch, passing);
        drop(go_on);
        assert!(hanging.await.unwrap().is_err());
        assert_eq!(fixture.fetch("/page.txt").await.0, 200);
    });
}
