//! Tests of files whose answers have a coding.

use std::collections::BTreeSet;
use std::io::Read;

use futures_util::future::join_all;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY,
};

use super::*;
use crate::coding::threads;
use crate::site::{Coding, Compress};

pub(super) struct Answer {
    pub(super) status: StatusCode,
    fields: http::HeaderMap,
    pub(super) body: Vec<u8>,
    source: Option<Source>,
}

impl Answer {
    fn field(&self, name: http::HeaderName) -> Option<&str> {
        let value = self.fields.get(name)?;
        Some(value.to_str().unwrap())
    }
}

impl Fixture {
    pub(super) async fn ask(&self, options: &RuleOptions, path: &str, accept: &str) -> Answer {
        let request = Request::get(path).header(ACCEPT_ENCODING, accept);
        self.ask_with(options, request).await
    }

    async fn ask_with(&self, options: &RuleOptions, request: http::request::Builder) -> Answer {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let path = SitePath::of_text(parts.uri.path()).unwrap();
        let asked = Asked {
            head: &parts,
            path: &path,
            rewritten: &path,
            options: Some(options),
        };
        let open = Opener {
            connection: &OpenFiles::default(),
            prefix: IpAddr::from([127, 0, 0, 1]).into(),
        };
        let root = root(self.root().to_str().unwrap());
        let folder = Folder {
            root: &root,
            host: &HostName::parse("a.example").unwrap(),
            tenant: &Tenant::default(),
        };
        let (head, body) = self.files.respond(folder, asked, open).await.into_parts();
        let body = body.collect().await.unwrap();
        Answer {
            status: head.status,
            source: head.extensions.get::<Source>().cloned(),
            fields: head.headers,
            body: body.to_bytes().to_vec(),
        }
    }
}

fn precompressed(codings: &[Coding]) -> RuleOptions {
    RuleOptions {
        precompressed: codings.into(),
        ..RuleOptions::default()
    }
}

fn compressing() -> RuleOptions {
    let compress = Compress {
        types: None,
        level: 4,
        upstream: false,
        cookies: false,
    };
    RuleOptions {
        compress: Some(Box::new(compress)),
        ..RuleOptions::default()
    }
}

const ALL: &[Coding] = &[Coding::Br, Coding::Zstd, Coding::Gzip];

#[tokio::test]
async fn a_copy_beside_a_file_is_served_as_the_client_likes() {
    let fixture = Fixture::new();
    fixture.write("index.html", "page");
    for (end, content) in [("br", "in br"), ("zst", "in zstd"), ("gz", "in gzip")] {
        fixture.write(&format!("index.html.{end}"), content);
    }
    let all = precompressed(ALL);
    for (options, accept, coding, content) in [
        (&all, "gzip, deflate, br, zstd", Some("br"), "in br"),
        (&all, "gzip;q=1, br;q=0.5", Some("gzip"), "in gzip"),
        (&all, "zstd", Some("zstd"), "in zstd"),
        (&all, "deflate", None, "page"),
        (&all, "", None, "page"),
        (
            &precompressed(&[Coding::Gzip]),
            "br, gzip",
            Some("gzip"),
            "in gzip",
        ),
        (&precompressed(&[Coding::Gzip]), "br", None, "page"),
    ] {
        for path in ["/", "/index.html"] {
            let answer = fixture.ask(options, path, accept).await;
            assert_eq!(answer.body, content.as_bytes(), "{accept}");
            assert_eq!(answer.field(CONTENT_ENCODING), coding, "{accept}");
            let html = Some("text/html; charset=utf-8");
            assert_eq!(answer.field(CONTENT_TYPE), html, "{accept}");
            assert_eq!(answer.field(VARY), Some("Accept-Encoding"), "{accept}");
            let length = content.len().to_string();
            assert_eq!(answer.field(CONTENT_LENGTH), Some(&*length), "{accept}");
            let ranges = coding.is_none().then_some("bytes");
            assert_eq!(answer.field(ACCEPT_RANGES), ranges, "{accept}");
        }
    }
    let plain = fixture.ask(&RuleOptions::default(), "/", "br").await;
    assert_eq!(plain.body, b"page");
    assert_eq!(plain.field(VARY), None);
}

#[tokio::test]
async fn copies_of_one_length_and_time_have_tags_of_their_own() {
    let fixture = Fixture::new();
    let mut tags = Vec::new();
    let then = SystemTime::now() - Duration::from_secs(60);
    for path in ["page.html", "page.html.br", "page.html.gz"] {
        fixture.write(path, "same");
        let path = fixture.root().join(path);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(then).unwrap();
    }
    for accept in ["", "br", "gzip"] {
        let answer = fixture.ask(&precompressed(ALL), "/page.html", accept).await;
        let tag = answer.field(ETAG).unwrap().to_owned();
        assert!(!tags.contains(&tag), "{tag}");
        let request = Request::get("/page.html").header(ACCEPT_ENCODING, accept);
        let request = request.header("if-none-match", &tag);
        let again = fixture.ask_with(&precompressed(ALL), request).await;
        assert_eq!(again.status, 304);
        assert_eq!(again.field(VARY), Some("Accept-Encoding"));
        tags.push(tag);
    }
}

#[tokio::test]
async fn a_copy_that_does_not_stand_for_its_file_is_passed_over() {
    let fixture = Fixture::new();
    fixture.write("older.html", "older");
    write_old(&fixture.root().join("older.html.gz"), "copy", 61);
    fixture.write("folder.html", "folder");
    fs::create_dir(fixture.root().join("folder.html.gz")).unwrap();
    fixture.write("fifo.html", "fifo");
    let fifo = fixture.root().join("fifo.html.gz");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    fixture.write("link.html", "link");
    fs::write(fixture.folder.path().join("secret"), "secret").unwrap();
    let secret = fixture.folder.path().join("secret");
    symlink(secret, fixture.root().join("link.html.gz")).unwrap();
    for name in ["older", "folder", "fifo", "link"] {
        let path = format!("/{name}.html");
        for _ in 0..2 {
            let answer = fixture.ask(&precompressed(ALL), &path, "gzip").await;
            assert_eq!(
                (answer.status.as_u16(), &*answer.body),
                (200, name.as_bytes())
            );
            assert_eq!(answer.field(CONTENT_ENCODING), None, "{name}");
        }
    }
    // A copy alone is no file, nor is a hidden one.
    fixture.write("alone.html.gz", "copy");
    fixture.write(".env", "hidden");
    fixture.write(".env.gz", "hidden");
    for path in ["/alone.html", "/.env", "/.env.gz"] {
        let answer = fixture.ask(&precompressed(ALL), path, "gzip").await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

/// Copies are looked for in the read that finds the file.
#[tokio::test]
async fn a_path_without_a_file_costs_one_read() {
    let fixture = Fixture::new();
    fixture.write("folder/file", "file");
    for (path, status) in [("/none.html", 404), ("/folder", 308), ("/folder/", 404)] {
        let before = fixture.files.0.cache.entries.len();
        let answer = fixture
            .ask(&precompressed(ALL), path, "br, zstd, gzip")
            .await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(fixture.files.0.cache.entries.len(), before + 1, "{path}");
    }
}

#[tokio::test]
async fn a_file_that_is_written_again_outdates_its_copy() {
    pause();
    let fixture = Fixture::new();
    write_old(&fixture.root().join("a.html"), "first", 120);
    write_old(&fixture.root().join("a.html.gz"), "copy", 60);
    let options = precompressed(ALL);
    assert_eq!(fixture.ask(&options, "/a.html", "gzip").await.body, b"copy");
    write_old(&fixture.root().join("a.html"), "second", 30);
    advance(Duration::from_secs(11)).await;
    assert_eq!(
        fixture.ask(&options, "/a.html", "gzip").await.body,
        b"second"
    );
}

#[tokio::test]
async fn a_large_copy_is_streamed() {
    let fixture = Fixture::new();
    let copy = vec![b'c'; usize::try_from(SMALL).unwrap() + 1];
    fixture.write("large.html", "plain");
    fixture.write("large.html.gz", &copy);
    for _ in 0..2 {
        let answer = fixture
            .ask(&precompressed(ALL), "/large.html", "gzip")
            .await;
        assert_eq!(answer.field(CONTENT_ENCODING), Some("gzip"));
        assert!(answer.body == copy);
    }
}

#[tokio::test]
async fn a_small_file_is_compressed_once() {
    let fixture = Fixture::new();
    let (text, tenant) = ("A text that shrinks. ".repeat(1000), Tenant::default());
    fixture.write("a.txt", &text);
    let compress = async |coding, level| {
        let plain = fixture.ask(&compressing(), "/a.txt", "gzip").await;
        assert_eq!(plain.body, text.as_bytes());
        let (source, body) = (plain.source.unwrap(), plain.body.into());
        let how = (coding, level);
        let coded = fixture.files.compress(Some(source), &tenant, how, body);
        coded.await.unwrap()
    };
    let first = compress(Coding::Gzip, 4).await;
    let mut decoded = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&*first);
    decoder.read_to_string(&mut decoded).unwrap();
    assert_eq!(decoded, text);
    let weight = || fixture.files.0.cache.entries.weight();
    let before = weight();
    assert_eq!(compress(Coding::Gzip, 4).await.as_ptr(), first.as_ptr());
    assert_eq!(weight(), before);
    // Another coding and another level have copies of their own.
    for (coding, level) in [(Coding::Br, 4), (Coding::Gzip, 9)] {
        let before = weight();
        let copy = compress(coding, level).await.len() as u64;
        let added = weight() - before;
        assert!((copy..copy + 1024).contains(&added), "{added} for {copy}");
    }
}

/// Those that had to wait find the copy.
#[tokio::test]
async fn requests_at_once_share_a_copy() {
    let (fixture, tenant) = (Fixture::new(), Tenant::default());
    fixture.write("a.txt", "A text that shrinks. ".repeat(1000));
    let plain = fixture.ask(&compressing(), "/a.txt", "gzip").await;
    let compress = |_| {
        let (source, body) = (plain.source.clone(), plain.body.clone().into());
        let how = (Coding::Gzip, 4);
        fixture.files.compress(source, &tenant, how, body)
    };
    let copies = join_all((0..3 * threads()).map(compress)).await;
    let copies: BTreeSet<_> = copies
        .into_iter()
        .map(|copy| copy.unwrap().as_ptr())
        .collect();
    assert!(copies.len() <= threads(), "{}", copies.len());
}

#[tokio::test]
async fn an_error_page_is_compressed_once() {
    let fixture = Fixture::new();
    fixture.write("404.html", "A text that shrinks. ".repeat(1000));
    let open = Opener {
        connection: &OpenFiles::default(),
        prefix: IpAddr::from([127, 0, 0, 1]).into(),
    };
    let folder = Folder {
        root: &root(fixture.root().to_str().unwrap()),
        host: &HostName::parse("a.example").unwrap(),
        tenant: &Tenant::default(),
    };
    let error = plain(StatusCode::NOT_FOUND);
    let page = fixture.files.page(folder, false, error, open).await;
    assert!(page.extensions().get::<Source>().is_some());
}

#[tokio::test]
async fn a_copy_in_memory_follows_its_file() {
    pause();
    let (fixture, tenant) = (Fixture::new(), Tenant::default());
    for (content, age) in [("first ", 90), ("second ", 60), ("third ", 30)] {
        let text = content.repeat(500);
        write_old(&fixture.root().join("a.txt"), &text, age);
        advance(Duration::from_secs(11)).await;
        let plain = fixture.ask(&compressing(), "/a.txt", "gzip").await;
        let (source, body) = (plain.source.unwrap(), plain.body.into());
        let how = (Coding::Gzip, 4);
        let coded = fixture.files.compress(Some(source), &tenant, how, body);
        let coded = coded.await.unwrap();
        let mut decoded = String::new();
        let mut decoder = flate2::read::GzDecoder::new(&*coded);
        decoder.read_to_string(&mut decoded).unwrap();
        assert_eq!(decoded, text);
    }
}

#[tokio::test]
async fn what_does_not_shrink_is_noted() {
    let (fixture, tenant) = (Fixture::new(), Tenant::default());
    let mut random = vec![0; 20_000];
    aws_lc_rs::rand::fill(&mut random).unwrap();
    fixture.write("random.txt", &random);
    for _ in 0..2 {
        let plain = fixture.ask(&compressing(), "/random.txt", "gzip").await;
        let (source, body) = (plain.source.unwrap(), plain.body.into());
        let how = (Coding::Gzip, 4);
        let coded = fixture.files.compress(Some(source), &tenant, how, body);
        assert_eq!(coded.await, None);
    }
    assert_eq!(fixture.files.0.cache.entries.len(), 2);
}
