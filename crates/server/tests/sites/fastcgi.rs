//! Tests sites whose scripts a FastCGI server runs.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Version};
use http_body_util::{BodyExt, Full};

use crate::fastcgi_server::{Asked, FastCgiServer, output};
use crate::world::{Answer, BOTH, Client, HOST, Upload, World, channel};

pub(crate) const SITE: &str =
    r#"{"root": "FOLDER/www", "fastcgi": "unix:FOLDER/run/{tenant}/php.sock"}"#;
const FILES: [(&str, &str); 8] = [
    ("www/index.php", "<?php secret"),
    ("www/a b.php", "<?php secret"),
    ("www/UPPER.PHP", "<?php secret"),
    ("www/page.txt", "a page"),
    ("www/name.jpg", "an image"),
    ("www/blog/index.php", "<?php secret"),
    ("www/x.php/y.php", "<?php secret"),
    ("www/.hidden.php", "<?php secret"),
];

/// Starts a server with this site, and a FastCGI server of its tenant.
pub(crate) fn start(
    site: &str,
    answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
) -> (World, FastCgiServer) {
    let world = World::new(site, &FILES);
    let socket = world.folder.path().join("run/acme/php.sock");
    let server = FastCgiServer::start(&socket, answer);
    (world, server)
}

/// Answers with the script's name and the rest of the path.
pub(crate) fn echo(asked: &Asked) -> Vec<u8> {
    let (script, info) = (asked.param("SCRIPT_NAME"), asked.param("PATH_INFO"));
    output(&format!("Content-Type: text/plain\r\n\r\n{script}|{info}"))
}

fn full(bytes: usize) -> Upload {
    let body = Full::new(Bytes::from(vec![b'x'; bytes]));
    body.map_err(|never| match never {}).boxed()
}

async fn post(client: &mut Client, path: &str, body: Upload) -> Answer {
    let answer = client.begin(Method::POST, path, &[("content-type", "a/b")], body);
    Answer::of(answer.await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_path_leads_to_a_script_or_a_file() {
    let (world, _server) = start(SITE, echo);
    for version in BOTH {
        for (path, status, body) in [
            ("/", 200, "/index.php|"),
            ("/index.php", 200, "/index.php|"),
            ("/index.php/a/b%20c?q=1", 200, "/index.php|/a/b c"),
            ("/a%20b.php", 200, "/a b.php|"),
            ("/UPPER.PHP", 200, "/UPPER.PHP|"),
            ("/blog/", 200, "/blog/index.php|"),
            ("/x.php/y.php/z", 200, "/x.php/y.php|/z"),
            ("/page.txt", 200, "a page"),
            ("/name.jpg", 200, "an image"),
            ("/blog", 308, ""),
            ("/missing.php", 404, "404 Not Found\n"),
            ("/page.txt/x.php", 404, "404 Not Found\n"),
            ("/name.jpg/index.php", 404, "404 Not Found\n"),
            ("/index.php%2Fa", 400, "400 Bad Request\n"),
            ("/../index.php", 400, "400 Bad Request\n"),
            ("/.hidden.php", 404, "404 Not Found\n"),
            ("/x.php", 404, "404 Not Found\n"),
            ("/x.php/", 404, "404 Not Found\n"),
        ] {
            let answer = world.get(version, path).await;
            assert_eq!(answer.status, status, "{version:?} {path}: {}", answer.body);
            assert!(
                status == 308 || answer.body == body,
                "{path}: {}",
                answer.body
            );
        }
    }
}

#[tokio::test]
async fn a_front_controller_answers_what_is_no_file() {
    let site = SITE.replace(
        "\"fastcgi\"",
        r#""try": ["{path}", "/index.php"], "fastcgi""#,
    );
    let (world, server) = start(&site, echo);
    for (path, body) in [
        ("/articles/7?page=2", "/index.php|"),
        ("/page.txt", "a page"),
        ("/blog/", "/blog/index.php|"),
        ("/missing.php", "/index.php|"),
        ("/blog/index.php/x", "/blog/index.php|/x"),
    ] {
        let answer = world.get(Version::HTTP_11, path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
    }
    let asked = server.asked();
    assert_eq!(asked[0].param("REQUEST_URI"), "/articles/7?page=2");
    assert_eq!(asked[0].param("QUERY_STRING"), "page=2");
}

/// A path below a script's runs the script, too: docs/sites.md blocks scripts so.
#[tokio::test]
async fn a_rule_for_all_below_a_script_blocks_it() {
    let paths = r#""paths": [
        {"path": "/index.php", "status": 403}, {"path": "= /blog/index.php", "status": 403}
    ], "fastcgi""#;
    let (world, server) = start(&SITE.replace("\"fastcgi\"", paths), echo);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for path in [
            "/index.php",
            "/index.php/x",
            "/index.php/a/index.php",
            "/%69ndex.php/x",
            "/blog/../index.php/x",
            "/blog/index.php",
        ] {
            assert_eq!(client.get(path).await.status, 403, "{path}");
        }
        assert!(server.asked().is_empty());
    }
    // For that path alone, a rule leaves those below it to the next.
    let answer = world.get(Version::HTTP_11, "/blog/index.php/x").await;
    assert_eq!(answer.body, "/blog/index.php|/x");
}

#[tokio::test]
async fn a_script_gets_the_parameters_of_cgi() {
    let (world, server) = start(SITE, echo);
    let root = format!("{}/www", world.folder.path().display());
    for (version, protocol) in [
        (Version::HTTP_11, "HTTP/1.1"),
        (Version::HTTP_2, "HTTP/2.0"),
    ] {
        let mut client = world.connect(version, HOST).await;
        let fields = [
            ("cookie", "a=1"),
            ("accept", "text/html"),
            ("accept", "a/b"),
            ("x-custom", "value"),
        ];
        let asked = client.send(Method::GET, "/x/..//index.php/info?a=b&c", &fields);
        assert_eq!(asked.await.status, 200);
        let asked = server.last();
        for (name, value) in [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "sekisho"),
            ("SERVER_PROTOCOL", protocol),
            ("SERVER_NAME", HOST),
            ("SERVER_ADDR", "127.0.0.1"),
            ("SERVER_PORT", &world.running.address.port().to_string()),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_SCHEME", "https"),
            ("HTTPS", "on"),
            ("QUERY_STRING", "a=b&c"),
            ("REQUEST_URI", "/index.php/info?a=b&c"),
            ("DOCUMENT_ROOT", &root),
            ("DOCUMENT_URI", "/index.php"),
            ("SCRIPT_NAME", "/index.php"),
            ("SCRIPT_FILENAME", &format!("{root}/index.php")),
            ("PATH_INFO", "/info"),
            ("PATH_TRANSLATED", &format!("{root}/info")),
            ("REDIRECT_STATUS", "200"),
            ("HTTP_HOST", HOST),
            ("HTTP_COOKIE", "a=1"),
            ("HTTP_ACCEPT", "text/html, a/b"),
            ("HTTP_X_CUSTOM", "value"),
            ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
            ("CONTENT_LENGTH", ""),
            ("CONTENT_TYPE", ""),
            ("REMOTE_USER", ""),
        ] {
            assert_eq!(asked.param(name), value, "{name}");
        }
        assert!(!asked.param("REMOTE_PORT").is_empty());
        assert!(!asked.keep);
    }
}

#[tokio::test]
async fn a_client_forges_no_parameter() {
    let (world, server) = start(SITE, echo);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let fields = [
            ("proxy", "http://evil.example"),
            ("script-filename", "/etc/passwd"),
            ("x_tenant", "other"),
            ("x.tenant", "other"),
            ("x-forwarded-for", "192.0.2.1"),
            ("remote-addr", "192.0.2.1"),
            ("https", "off"),
            ("content_length", "7"),
        ];
        let answer = client.send(Method::GET, "/index.php", &fields).await;
        assert_eq!(answer.status, 200);
        let asked = server.last();
        let values: Vec<_> = asked.params.values().map(String::as_str).collect();
        for forged in ["http://evil.example", "other", "192.0.2.1", "7"] {
            assert!(!values.contains(&forged), "{forged}: {:?}", asked.params);
        }
        assert_eq!(asked.param("HTTPS"), "on");
        assert_eq!(asked.param("HTTP_HTTPS"), "off");
        assert_eq!(asked.param("HTTP_SCRIPT_FILENAME"), "/etc/passwd");
        assert!(asked.param("SCRIPT_FILENAME").ends_with("/www/index.php"));
    }
}

#[tokio::test]
async fn a_script_is_told_the_length_of_each_body() {
    let (world, server) = start(SITE, echo);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        // With a length it is streamed, without one collected.
        for (length, body) in [
            (300_000, full(300_000)),
            (0, full(0)),
            (200_000, pieces(200_000)),
            (1 << 20, pieces(1 << 20)),
        ] {
            let answer = post(&mut client, "/index.php", body).await;
            assert_eq!(answer.status, 200, "{version:?} {length}");
            let asked = server.last();
            assert_eq!(asked.param("CONTENT_LENGTH"), length.to_string());
            assert_eq!(asked.param("CONTENT_TYPE"), "a/b");
            assert_eq!(asked.param("HTTP_CONTENT_TYPE"), "");
            assert_eq!(asked.body.len(), length);
        }
        let before = server.asked().len();
        let answer = post(&mut client, "/index.php", pieces((1 << 20) + 1)).await;
        assert_eq!(answer.status, 411, "{version:?}");
        assert_eq!(server.asked().len(), before);
    }
}

/// Makes a body without a length.
fn pieces(bytes: usize) -> Upload {
    let (sender, body) = channel();
    tokio::spawn(async move {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(10_000);
            left -= piece;
            if sender.send(vec![b'x'; piece].into()).await.is_err() {
                return;
            }
        }
    });
    body
}

#[tokio::test]
async fn a_files_method_is_its_own() {
    let (world, _server) = start(SITE, echo);
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    for (method, path, status) in [
        (Method::DELETE, "/index.php", 200),
        (Method::TRACE, "/index.php", 405),
        (Method::POST, "/page.txt", 405),
        (Method::POST, "/missing.txt", 404),
        (Method::HEAD, "/page.txt", 200),
    ] {
        let answer = client.send(method.clone(), path, &[]).await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn the_head_of_an_answer_is_read() {
    let answer = |asked: &Asked| {
        output(match asked.param("QUERY_STRING") {
            "status" => "Status: 404 Not Found\nX-A: 1\nX-A: 2\n\nmissing",
            "location" => "Location: https://b.example/\r\n\r\n",
            "orders" => {
                "X-Accel-Redirect: /a\nX-Sendfile: /etc/passwd\nConnection: close\nX-B: 1\n\nb"
            }
            "empty" => "Status: 204\n\nno content",
            "head" => "Content-Length: 5\n\n12345",
            _ => "Content-Type: text/plain\n\n\n\n",
        })
    };
    let (world, _server) = start(SITE, answer);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answer = client.get("/index.php?status").await;
        assert_eq!((answer.status, answer.body.as_str()), (404, "missing"));
        assert_eq!(answer.field("x-a").as_deref(), Some("1|2"));
        assert_eq!(answer.field("status"), None);
        let answer = client.get("/index.php?location").await;
        assert_eq!(answer.status, 302);
        let answer = client.get("/index.php?orders").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "b"));
        for gone in ["x-accel-redirect", "x-sendfile", "connection"] {
            assert_eq!(answer.field(gone), None, "{gone}");
        }
        let answer = client.get("/index.php?empty").await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""));
        let answer = client.send(Method::HEAD, "/index.php?head", &[]).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
        assert_eq!(answer.field("content-length").as_deref(), Some("5"));
        let answer = client.get("/index.php").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "\n\n"));
    }
}

#[tokio::test]
async fn as_many_connections_are_kept_as_the_site_says() {
    for (keep, connections) in [(0, 6), (1, 1)] {
        let fastcgi =
            format!(r#"{{"servers": ["unix:FOLDER/run/{{tenant}}/php.sock"], "keep": {keep}}}"#);
        let plain = r#""unix:FOLDER/run/{tenant}/php.sock""#;
        let (world, server) = start(&SITE.replace(plain, &fastcgi), echo);
        let mut client = world.connect(Version::HTTP_11, HOST).await;
        for number in 0..6 {
            let path = format!("/index.php/{number}");
            let answer = client.get(&path).await;
            assert_eq!(answer.body, format!("/index.php|/{number}"));
        }
        assert_eq!(server.connections(), connections, "keep={keep}");
        assert_eq!(server.last().keep, keep > 0);
    }
}

#[tokio::test]
async fn a_pool_of_another_tenant_can_not_be_named() {
    let site = SITE.replace("{tenant}", "other");
    let (world, server) = start(&site, echo);
    let socket = world.folder.path().join("run/other/php.sock");
    let _other = FastCgiServer::start(&socket, echo);
    assert_eq!(world.get(Version::HTTP_11, "/index.php").await.status, 503);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_socket_may_be_the_host_s() {
    let site = SITE.replace("php.sock", "{host}.sock");
    let (world, _server) = start(&site, echo);
    let socket = world.folder.path().join(format!("run/acme/{HOST}.sock"));
    let own = FastCgiServer::start(Path::new(&socket), echo);
    assert_eq!(world.get(Version::HTTP_11, "/index.php").await.status, 200);
    assert_eq!(own.asked().len(), 1);
}

#[tokio::test]
async fn a_pool_that_was_restarted_is_found_at_once() {
    let world = World::new(SITE, &FILES);
    let socket = world.folder.path().join("run/acme/php.sock");
    for _ in 0..3 {
        let server = FastCgiServer::start_for(&socket, 1, echo);
        assert_eq!(world.get(Version::HTTP_11, "/index.php").await.status, 200);
        assert_eq!(server.asked().len(), 1);
        std::fs::remove_file(&socket).unwrap();
    }
    assert_eq!(world.get(Version::HTTP_11, "/index.php").await.status, 502);
}

#[tokio::test]
async fn a_link_leads_to_no_script_outside_the_root() {
    let (world, server) = start(SITE, echo);
    let at = |name: &str| world.folder.path().join(name);
    std::fs::write(at("outside.php"), "<?php").unwrap();
    std::os::unix::fs::symlink(at("outside.php"), at("www/out.php")).unwrap();
    std::os::unix::fs::symlink("index.php", at("www/in.php")).unwrap();
    assert_eq!(world.get(Version::HTTP_11, "/out.php").await.status, 404);
    assert!(server.asked().is_empty());
    assert_eq!(world.get(Version::HTTP_11, "/in.php").await.status, 200);
    assert!(
        server
            .last()
            .param("SCRIPT_FILENAME")
            .ends_with("/www/in.php")
    );
}
