//! Tests scripts below the roots of several paths.

use http::Version;

use crate::fastcgi::{SITE, echo, start};
use crate::world::{BOTH, write};

#[tokio::test]
async fn scripts_are_no_files_of_another_path_either() {
    let paths =
        r#""paths": [{"path": "/static", "root": "FOLDER/www/blog", "strip": true}], "fastcgi""#;
    let (world, server) = start(&SITE.replace("\"fastcgi\"", paths), echo);
    let answer = world.get(Version::HTTP_11, "/static/index.php").await;
    assert_eq!(answer.body, "/static/index.php|");
    let script = server.last().param("SCRIPT_FILENAME").to_owned();
    assert!(script.ends_with("/www/blog/index.php"), "{script}");
}

#[tokio::test]
async fn no_script_of_a_path_runs_that_says_so() {
    let uploads = r#""paths": [
        {"path": "/blog", "root": "FOLDER/www", "fastcgi": "none"},
        {"path": "/alone", "root": "FOLDER/www/blog", "strip": true, "fastcgi": "none"}
    ], "fastcgi": {"servers": ["unix:FOLDER/run/{tenant}/php.sock"], "scripts": [".php", ".jpg"]}"#;
    let site = format!(r#"{{"root": "FOLDER/www", {uploads}}}"#);
    let (world, server) = start(&site, echo);
    write(&world.folder, "www/blog/shell.jpg", "<?php secret");
    for (path, status) in [
        ("/blog/index.php", 403),
        ("/blog/index.php/x", 403),
        ("/blog/", 403),
        ("/blog/INDEX.PHP", 404),
        ("/blog/missing.php", 404),
        ("/blog/shell.jpg", 403),
        ("/alone/index.php", 403),
        ("/page.txt", 200),
    ] {
        for version in BOTH {
            assert_eq!(world.get(version, path).await.status, status, "{path}");
        }
    }
    assert_eq!(server.connections(), 0);
}
