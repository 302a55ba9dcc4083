//! Sites as a client sees them, through hyper on a real socket.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_certs::{HostName, Site as StoredSite};
use sekisho_server::site::{Responder, Site};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A folder `www` beside a folder `secrets`, served on a port of its own.
struct Server {
    folder: TempDir,
    address: SocketAddr,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("www");
        fs::create_dir(&root).unwrap();
        let json = serde_json::json!({ "root": root }).to_string();
        let site = site(&json).unwrap();
        let address = serve(site).await;
        Self { folder, address }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("www").join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write_at(&self.path(path), content);
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        self.request("GET", path, headers).await
    }

    async fn request(&self, method: &str, path: &str, headers: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{headers}\r\n"
        );
        exchange(self.address, request.as_bytes()).await
    }
}

/// An answer as it came over the wire.
#[derive(Debug)]
struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

fn site(json: &str) -> Result<Site, sekisho_server::site::SiteError> {
    Site::parse(&StoredSite {
        format: 1,
        json: json.into(),
    })
}

async fn serve(site: Site) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let responder = Arc::new(Responder::new(16 << 20));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (responder, site) = (Arc::clone(&responder), site.clone());
            let service = service_fn(move |request| {
                let (responder, site) = (Arc::clone(&responder), site.clone());
                async move {
                    let host = HostName::parse("a.example").unwrap();
                    Ok::<_, std::convert::Infallible>(
                        responder.respond(&site, &host, request).await,
                    )
                }
            });
            tokio::spawn(async move {
                let mut preface = [0; 3];
                socket.peek(&mut preface).await.unwrap();
                let io = TokioIo::new(socket);
                if &preface == b"PRI" {
                    let http2 = http2::Builder::new(TokioExecutor::new());
                    let _ = http2.serve_connection(io, service).await;
                } else {
                    let _ = http1::Builder::new().serve_connection(io, service).await;
                }
            });
        }
    });
    address
}

async fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = bytes.split_off(end.expect("a head") + 4);
    Answer {
        head: String::from_utf8(bytes).unwrap(),
        body,
    }
}

fn write_at(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(784_111_777))
        .unwrap();
}

const EVIL: &[&str] = &[
    "/../secrets/key.pem",
    "/../../secrets/key.pem",
    "/sub/../../secrets/key.pem",
    "/./../secrets/key.pem",
    "/.../secrets/key.pem",
    "//../secrets/key.pem",
    "/..//secrets/key.pem",
    "/%2e%2e/secrets/key.pem",
    "/%2E%2E/secrets/key.pem",
    "/.%2e/secrets/key.pem",
    "/%2e./secrets/key.pem",
    "/..%2fsecrets/key.pem",
    "/..%2Fsecrets%2Fkey.pem",
    "/%2e%2e%2fsecrets%2fkey.pem",
    "/..%5csecrets%5ckey.pem",
    "/..\\secrets\\key.pem",
    "/%5c..%5csecrets/key.pem",
    "/%252e%252e/secrets/key.pem",
    "/..%252fsecrets/key.pem",
    "/..%c0%afsecrets/key.pem",
    "/%c0%ae%c0%ae/secrets/key.pem",
    "/%e0%80%ae%e0%80%ae/secrets/key.pem",
    "/..%ef%bc%8fsecrets/key.pem",
    "/%u002e%u002e/secrets/key.pem",
    "/..;/secrets/key.pem",
    "/..%00/secrets/key.pem",
    "/..%0a/secrets/key.pem",
    "/..%0d%0a/secrets/key.pem",
    "/../secrets/key.pem%00.html",
    "/index.html%00../../secrets/key.pem",
    "/index.html/../../secrets/key.pem",
    "/sub/page.txt/../../../secrets/key.pem",
    "/..?/secrets/key.pem",
    "/?/../secrets/key.pem#",
    "/%2f../secrets/key.pem",
    "/%2fetc/passwd",
    "//etc/passwd",
    "/etc/passwd",
    "/link/key.pem",
    "/link/",
    "/link",
    "/proc/self/environ",
    "/.env",
    "/%2eenv",
    "/.git/config",
    "/.git/",
    "/sub/.htpasswd",
    "/sub/%2ehtpasswd",
    "/sub//.htpasswd",
    "/sub/.well-known/x",
    "/.",
    "/..",
    "/%",
    "/%2",
    "/%zz",
    "/~root/.ssh/id_rsa",
    "/C:/secrets/key.pem",
    "/file:///etc/passwd",
];

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[tokio::test]
async fn evil_paths_lead_nowhere() {
    let server = Server::start().await;
    write_at(&server.folder.path().join("secrets/key.pem"), "SECRET");
    server.write("index.html", "index");
    server.write(".env", "SECRET");
    server.write(".git/config", "SECRET");
    server.write("sub/.htpasswd", "SECRET");
    server.write("sub/.well-known/x", "SECRET");
    server.write("sub/page.txt", "page");
    std::os::unix::fs::symlink("../secrets", server.path("link")).unwrap();
    for path in EVIL {
        let answer = server.get(path, "").await;
        let body = String::from_utf8_lossy(&answer.body);
        assert!(
            !body.contains("SECRET") && !body.contains("root:"),
            "{path}: {body}"
        );
        if *path != "/?/../secrets/key.pem#" {
            assert!(
                [400, 404].contains(&answer.status()),
                "{path}: {}",
                answer.head
            );
        }
    }
    let absolute = b"GET http://a.example/../secrets/key.pem HTTP/1.0\r\n\r\n";
    assert_eq!(exchange(server.address, absolute).await.status(), 400);
}

#[tokio::test]
async fn a_file_comes_with_its_type_and_validators() {
    let server = Server::start().await;
    server.write("index.html", "<p>hello");
    server.write("sub/index.html", "<p>sub");
    server.write("empty.txt", "");
    server.write(".well-known/security.txt", "Contact:");
    server.write("bücher & x.txt", "books");
    for (path, kind, body) in [
        ("/", "text/html; charset=utf-8", "<p>hello"),
        ("/?q=/../x", "text/html; charset=utf-8", "<p>hello"),
        ("/index.html", "text/html; charset=utf-8", "<p>hello"),
        ("/sub/", "text/html; charset=utf-8", "<p>sub"),
        ("//sub//", "text/html; charset=utf-8", "<p>sub"),
        ("/empty.txt", "text/plain; charset=utf-8", ""),
        (
            "/.well-known/security.txt",
            "text/plain; charset=utf-8",
            "Contact:",
        ),
        (
            "/b%C3%BCcher%20&%20x.txt",
            "text/plain; charset=utf-8",
            "books",
        ),
    ] {
        for _ in 0..2 {
            let answer = server.get(path, "").await;
            assert_eq!(answer.status(), 200, "{path}");
            assert_eq!(answer.header("content-type"), Some(kind), "{path}");
            assert_eq!(answer.header("last-modified"), Some(MODIFIED));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("accept-ranges"), Some("bytes"));
            let length = body.len().to_string();
            assert_eq!(answer.header("content-length"), Some(&*length), "{path}");
            assert!(answer.header("etag").unwrap().starts_with('"'));
            assert!(answer.header("date").is_some());
            assert_eq!(answer.body, body.as_bytes(), "{path}");
        }
    }
}

#[tokio::test]
async fn a_directory_without_a_slash_is_redirected() {
    let server = Server::start().await;
    server.write("sub/deep/index.html", "deep");
    for (path, location) in [
        ("/sub", "/sub/"),
        ("/sub/deep?a=b&c", "/sub/deep/?a=b&c"),
        ("//sub", "/sub/"),
        ("/%73ub", "/sub/"),
    ] {
        for _ in 0..2 {
            let answer = server.get(path, "").await;
            assert_eq!(answer.status(), 308, "{path}");
            assert_eq!(answer.header("location"), Some(location), "{path}");
        }
    }
    // It exists, but nothing lists it.
    assert_eq!(server.get("/sub/", "").await.status(), 404);
}

#[tokio::test]
async fn only_get_and_head_are_answered() {
    let server = Server::start().await;
    server.write("page.txt", "page");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let answer = server.request(method, "/page.txt", "").await;
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    server.write("large.bin", vec![b'x'; 200_000]);
    for (path, length) in [("/page.txt", "4"), ("/large.bin", "200000")] {
        for headers in ["", "Range: bytes=0-1\r\n"] {
            let answer = server.request("HEAD", path, headers).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.header("content-length"), Some(length));
            assert!(answer.body.is_empty());
        }
    }
    let answer = server.request("HEAD", "/missing", "").await;
    assert_eq!((answer.status(), answer.body.len()), (404, 0));
}

#[tokio::test]
async fn a_fresh_copy_is_not_sent_again() {
    let server = Server::start().await;
    server.write("small.txt", "page");
    server.write("large.txt", vec![b'x'; 100_000]);
    for path in ["/small.txt", "/large.txt"] {
        let etag = server
            .get(path, "")
            .await
            .header("etag")
            .unwrap()
            .to_owned();
        for (headers, status) in [
            (format!("If-None-Match: {etag}\r\n"), 304),
            (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
            ("If-None-Match: *\r\n".into(), 304),
            ("If-None-Match: \"x\"\r\n".into(), 200),
            (format!("If-Modified-Since: {MODIFIED}\r\n"), 304),
            (
                "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".into(),
                200,
            ),
            (format!("If-Match: {etag}\r\n"), 200),
            ("If-Match: \"x\"\r\n".into(), 412),
            (
                "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".into(),
                412,
            ),
            (format!("If-Unmodified-Since: {MODIFIED}\r\n"), 200),
        ] {
            let answer = server.get(path, &headers).await;
            assert_eq!(answer.status(), status, "{path} {headers}");
            if status == 304 {
                assert!(answer.body.is_empty());
                assert_eq!(answer.header("etag"), Some(&*etag));
                assert_eq!(answer.header("last-modified"), Some(MODIFIED));
                assert_eq!(answer.header("content-length"), None);
            }
        }
    }
}

#[tokio::test]
async fn parts_of_a_file() {
    let server = Server::start().await;
    let content: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    server.write("large.bin", &content);
    server.write("small.bin", &content[..1000]);
    for (path, len) in [("/small.bin", 1000), ("/large.bin", 200_000)] {
        let etag = server
            .get(path, "")
            .await
            .header("etag")
            .unwrap()
            .to_owned();
        for (range, start, end) in [
            ("bytes=0-0".to_owned(), 0, 1),
            ("bytes=10-19".to_owned(), 10, 20),
            (format!("bytes={}-", len - 7), len - 7, len),
            ("bytes=-9".to_owned(), len - 9, len),
            ("bytes=0-99999999".to_owned(), 0, len),
        ] {
            for condition in [String::new(), format!("If-Range: {etag}\r\n")] {
                let answer = server
                    .get(path, &format!("Range: {range}\r\n{condition}"))
                    .await;
                assert_eq!(answer.status(), 206, "{path} {range}");
                let expected = format!("bytes {start}-{}/{len}", end - 1);
                assert_eq!(answer.header("content-range"), Some(&*expected));
                assert_eq!(answer.body, content[start..end], "{path} {range}");
            }
        }
        for headers in [
            "Range: bytes=0-1,4-5\r\n",
            "Range: bytes=5-2\r\n",
            "Range: lines=0-1\r\n",
            "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n",
            "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:36 GMT\r\n",
        ] {
            let answer = server.get(path, headers).await;
            assert_eq!(answer.status(), 200, "{path} {headers}");
            assert_eq!(answer.body, content[..len]);
        }
        let answer = server.get(path, &format!("Range: bytes={len}-\r\n")).await;
        assert_eq!(answer.status(), 416);
        assert_eq!(
            answer.header("content-range"),
            Some(&*format!("bytes */{len}"))
        );
        let headers = format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\n");
        assert_eq!(server.get(path, &headers).await.status(), 206);
    }
}

#[tokio::test]
async fn a_large_file_arrives_whole() {
    let server = Server::start().await;
    let content: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 251) as u8).collect();
    server.write("large.bin", &content);
    let answer = server.get("/large.bin", "").await;
    assert_eq!(answer.header("content-length"), Some("3000001"));
    assert_eq!(answer.body, content);
}

#[tokio::test]
async fn a_file_cut_while_it_is_sent_breaks_the_answer() {
    let server = Server::start().await;
    server.write("large.bin", vec![b'x'; 32 << 20]);
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /large.bin HTTP/1.1\r\nHost: a.example\r\n\r\n";
    socket.write_all(request).await.unwrap();
    // The rest can't all be in the socket's buffers yet.
    let mut head = [0; 1000];
    socket.read_exact(&mut head).await.unwrap();
    let file = fs::File::options()
        .write(true)
        .open(server.path("large.bin"));
    file.unwrap().set_len(1000).unwrap();
    let mut rest = Vec::new();
    // Without `Connection: close`, only a broken answer ends the connection.
    let _ = socket.read_to_end(&mut rest).await;
    assert!(rest.len() + head.len() < 32 << 20, "{}", rest.len());
}

#[tokio::test]
async fn http2_gets_the_same() {
    let server = Server::start().await;
    server.write("small.txt", "page");
    server.write("large.bin", vec![b'x'; 200_000]);
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
    tokio::spawn(connection);
    for (method, path, range, status, length, body) in [
        ("GET", "/small.txt", "", 200, 4, 4),
        ("HEAD", "/small.txt", "", 200, 4, 0),
        ("GET", "/large.bin", "", 200, 200_000, 200_000),
        ("HEAD", "/large.bin", "", 200, 200_000, 0),
        ("GET", "/large.bin", "bytes=-100000", 206, 100_000, 100_000),
        ("GET", "/missing", "", 404, 14, 14),
    ] {
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("http://a.example{path}"))
            .header("range", range)
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
        assert_eq!(response.headers()["content-length"], length.to_string());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len(), body, "{method} {path}");
    }
}

#[tokio::test]
async fn a_file_with_a_strange_date_is_served() {
    let server = Server::start().await;
    for (name, time) in [
        ("old.txt", UNIX_EPOCH - Duration::from_secs(1000)),
        (
            "future.txt",
            SystemTime::now() + Duration::from_secs(86_400),
        ),
    ] {
        server.write(name, "page");
        let file = fs::File::options()
            .write(true)
            .open(server.path(name))
            .unwrap();
        file.set_modified(time).unwrap();
        let answer = server.get(&format!("/{name}"), "").await;
        assert_eq!(answer.status(), 200, "{name}");
        assert_eq!(answer.header("last-modified"), None, "{name}");
    }
}

#[tokio::test]
async fn a_site_may_redirect_or_refuse() {
    let redirect = site(r#"{"redirect": "https://b.example", "status": 302}"#).unwrap();
    let address = serve(redirect).await;
    let request = b"POST /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let answer = exchange(address, request).await;
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.header("location"), Some("https://b.example/x?y"));

    let gone = site(r#"{"status": 410}"#).unwrap();
    let answer = exchange(serve(gone).await, request).await;
    assert_eq!((answer.status(), &*answer.body), (410, &b"410 Gone\n"[..]));
}

#[test]
fn a_site_that_can_not_be_is_refused_with_the_reason() {
    for (json, reason) in [
        ("", "can't be read"),
        ("{}", "exactly one"),
        ("[]", "can't be read"),
        (r#"{"root": "/a", "status": 404}"#, "exactly one"),
        (
            r#"{"root": "/a", "redirect": "https://b.example"}"#,
            "exactly one",
        ),
        (r#"{"root": "/a", "index": "x"}"#, "unknown field `index`"),
        (r#"{"root": "www"}"#, "absolute path"),
        (r#"{"root": ""}"#, "must not be empty"),
        (r#"{"root": "/a\u0000"}"#, "NUL"),
        (r#"{"root": "/a/{tenant}"}"#, "{host}"),
        (r#"{"root": 1}"#, "expected a string"),
        (
            r#"{"redirect": "b.example"}"#,
            "no absolute http or https URL",
        ),
        (
            r#"{"redirect": "https://b.example", "status": 200}"#,
            "301, 302, 307 or 308",
        ),
        (r#"{"status": 200}"#, "400 to 599"),
        (r#"{"status": -1}"#, "400 to 599"),
        (
            r#"{"upstream": "http://127.0.0.1:8000"}"#,
            "`upstream` is not built yet",
        ),
        (
            r#"{"root": "/a", "upstream": {}}"#,
            "`upstream` is not built yet",
        ),
    ] {
        let error = site(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
    }
    let later = StoredSite {
        format: 2,
        json: "{}".into(),
    };
    assert!(
        Site::parse(&later)
            .unwrap_err()
            .to_string()
            .contains("format 2")
    );
}

#[test]
fn a_site_weighs_what_it_keeps() {
    let short = site(r#"{"root": "/a"}"#).unwrap().weight();
    let long = site(&format!(r#"{{"root": "/{}"}}"#, "a".repeat(1000)))
        .unwrap()
        .weight();
    assert_eq!(long - short, 999);
    assert!(short < 300, "{short}");
}
