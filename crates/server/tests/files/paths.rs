//! Tests that no path leads out of the root, or to a hidden file.

use crate::server::{Server, exchange, write_at};

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
    "/sub/../.env",
    "/..",
    "/sub/../.env",
    "/%2",
    "/%zz",
    "/~root/.ssh/id_rsa",
    "/C:/secrets/key.pem",
    "/file:///etc/passwd",
];
