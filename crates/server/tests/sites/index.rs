//! Tests the files and scripts that stand for a folder by the names of a rule.

use http::Method;

use crate::fastcgi_server::{Asked, FastCgiServer, output};
use crate::world::{BOTH, HOST, World};

#[tokio::test]
async fn each_rule_has_names_of_its_own() {
    let site = r#"{
        "root": "FOLDER", "index": ["start.htm", "index.html"],
        "paths": [
            {"path": "/usual", "root": "FOLDER", "index": ["index.html"]},
            {"path": "/tried", "root": "FOLDER", "strip": true, "try": ["/gone/", "{path}", "/sub/"]}
        ]
    }"#;
    let files = [
        ("index.html", "usual"),
        ("sub/start.htm", "start"),
        ("sub/index.html", "usual below"),
        ("usual/start.htm", "start"),
        ("usual/index.html", "usual"),
        ("none/other.htm", "other"),
    ];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status, body) in [
            ("/", 200, "usual"),
            ("/sub/", 200, "start"),
            ("/sub/index.html", 200, "usual below"),
            ("/usual/", 200, "usual"),
            ("/none/", 404, "404 Not Found\n"),
            ("/tried/", 200, "usual"),
            ("/tried/x", 200, "start"),
        ] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
        }
        let answer = client.get("/sub").await;
        assert_eq!(answer.field("location").unwrap(), "/sub/");
        assert_eq!(client.send(Method::POST, "/sub/", &[]).await.status, 405);
        let answer = client.send(Method::HEAD, "/sub/", &[]).await;
        assert_eq!(answer.field("content-length").unwrap(), "5");
    }
}

fn echo(asked: &Asked) -> Vec<u8> {
    let (script, info) = (asked.param("SCRIPT_NAME"), asked.param("PATH_INFO"));
    output(&format!("Content-Type: text/plain\r\n\r\n{script}|{info}"))
}

#[tokio::test]
async fn a_script_may_stand_for_a_folder() {
    let site = r#"{
        "root": "FOLDER/www", "fastcgi": "unix:FOLDER/run/{tenant}/php.sock",
        "index": ["home.html", "app.php"]
    }"#;
    let files = [
        ("www/index.php", "<?php secret"),
        ("www/app.php", "<?php secret"),
        ("www/app.php.gz", "secret"),
        ("www/page/home.html", "home"),
        ("www/page/app.php", "<?php secret"),
        ("www/only/index.php", "<?php secret"),
    ];
    let world = World::new(site, &files);
    let socket = world.folder.path().join("run/acme/php.sock");
    let _server = FastCgiServer::start(&socket, echo);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status, body) in [
            ("/", 200, "/app.php|"),
            ("/page/", 200, "home"),
            ("/only/", 404, "404 Not Found\n"),
            ("/only/index.php", 200, "/only/index.php|"),
            // A path that a script's name begins is the script's.
            ("/app.php/", 200, "/app.php|/"),
        ] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
        }
        let answer = client.send(Method::POST, "/", &[]).await;
        assert_eq!((answer.status, &*answer.body), (200, "/app.php|"));
    }
}

/// A copy beside a script is never sent in its place.
#[tokio::test]
async fn scripts_have_no_precompressed_copies() {
    let site = r#"{
        "root": "FOLDER/www", "fastcgi": "unix:FOLDER/run/{tenant}/php.sock",
        "precompressed": ["gzip"]
    }"#;
    let files = [
        ("www/app.php", "<?php secret"),
        ("www/app.php.gz", "secret"),
        ("www/gone.php.gz", "secret"),
        ("www/page.txt", "page"),
        ("www/page.txt.gz", "copy"),
    ];
    let world = World::new(site, &files);
    let socket = world.folder.path().join("run/acme/php.sock");
    let _server = FastCgiServer::start(&socket, echo);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status, body) in [
            ("/app.php", 200, "/app.php|"),
            ("/gone.php", 404, "404 Not Found\n"),
            ("/page.txt", 200, "copy"),
        ] {
            let fields = [("accept-encoding", "gzip")];
            let answer = client.send(Method::GET, path, &fields).await;
            assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
        }
    }
}
