//! `rediss://`

use super::*;

#[tokio::test]
async fn a_server_is_verified() {
    let ca = TestCa::new();
    let server = RedisServer::start_tls(&ca, &["--tls-auth-clients", "no"]);
    let (port, root) = (server.port(), server.path("ca.pem"));
    let root = root.display();
    for host in ["127.0.0.1", "localhost"] {
        let bench = open(&format!("rediss://{host}:{port}?ca={root}"));
        bench.reach().await.unwrap();
        assert!(matches!(
            find(&bench, "a.example").await,
            Ok(Answer { found: None, .. })
        ));
    }
    let bench = Bench::on(server, &format!("rediss://127.0.0.1:PORT/2?ca={root}"));
    bench.put("a.example", Key::P256);
    assert!(bench.absent("a.example").await);

    let stranger = bench.server.path("stranger.pem");
    std::fs::write(&stranger, TestCa::new().root_pem()).unwrap();
    let stranger = open(&format!(
        "rediss://127.0.0.1:{port}?ca={}",
        stranger.display()
    ));
    let why = unavailable(stranger.reach().await);
    assert!(why.contains("TLS: ") && why.contains("ertificate"), "{why}");
    unavailable(open(&format!("redis://127.0.0.1:{port}")).reach().await);
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let ca = TestCa::new();
    let server = RedisServer::start_tls(&ca, &[]);
    let path = |name| server.path(name).display().to_string();
    let url = format!("rediss://127.0.0.1:{}?ca={}", server.port(), path("ca.pem"));
    unavailable(open(&url).reach().await);
    let (cert, key) = (path("tls.crt"), path("tls.key"));
    let store = open(&format!("{url}&client_cert={cert}&client_key={key}"));
    store.reach().await.unwrap();
}

#[tokio::test]
async fn a_cluster_may_speak_tls() {
    let ca = TestCa::new();
    let args = ["--cluster-enabled", "yes", "--tls-cluster", "yes"];
    let args = [&args[..], &["--tls-auth-clients", "no"]].concat();
    let server = RedisServer::start_tls(&ca, &args);
    server.cli(&["cluster", "addslotsrange", "0", "16383"]);
    server.wait_for(&["cluster", "info"], "cluster_state:ok");
    let root = server.path("ca.pem").display().to_string();
    let url = format!("redis+cluster://127.0.0.1:PORT?tls=1&ca={root}");
    let bench = Bench::on(server, &url);
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;
}

#[tokio::test]
async fn a_bad_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    for file in ["missing.pem", "empty.pem"] {
        let url = format!("rediss://h?ca={}", folder.path().join(file).display());
        let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
        let error = Redis::open(&url, &Handle::current()).unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)));
        assert!(error.to_string().contains(file), "{error}");
    }
}
