//! Hosts that are served over plain HTTP.

use std::sync::Arc;
use std::time::Duration;

use sekisho_server::network::Network;
use sekisho_testkit::{Key, TestCa};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::common::store::issuer;
use crate::common::upstream::{Upstream, Wire, patiently};
use crate::common::{Running, Scripted, start};
use crate::{Client, bare, certified, change, get, serve, setup, site, watch};

#[tokio::test]
async fn a_host_serves_redirects_or_waits_for_its_certificate() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    let [serves, waits, redirects] = ["serve", "until-certificate", "redirect"].map(site);
    let silent = r#"{"status": 410, "text": "served"}"#;
    let running = serve([
        bare("serve.example", &serves),
        certified("serve-tls.example", &pair, &serves),
        bare("wait.example", &waits),
        certified("wait-tls.example", &pair, &waits),
        bare("redirect.example", &redirects),
        certified("redirect-tls.example", &pair, &redirects),
        bare("silent.example", silent),
        bare("*.below.example", &serves),
    ]);
    // One connection may ask for all of them.
    let mut client = Client::connect(running.http).await;
    for _ in 0..2 {
        for (name, is_served) in [
            ("serve.example", true),
            ("serve-tls.example", true),
            ("wait.example", true),
            ("wait-tls.example", false),
            ("redirect.example", false),
            ("redirect-tls.example", false),
            ("silent.example", false),
            ("a.below.example", true),
        ] {
            let answer = client.get(name, "/a?b=1").await;
            if is_served {
                assert_eq!((answer.status, &*answer.body), (410, "served"), "{name}");
            } else {
                answer.leads_to_https(&running, name, "/a?b=1");
            }
        }
    }
}

#[tokio::test]
async fn without_the_key_each_request_is_redirected() {
    let mut setup = setup();
    setup.settings.plain = false;
    let hosts = Scripted::new([bare("serve.example", &site("serve"))]);
    let running = start(hosts, &setup);
    let mut client = Client::connect(running.http).await;
    let answer = client.get("serve.example", "/").await;
    answer.leads_to_https(&running, "serve.example", "/");
    assert_eq!(answer.field("connection"), Some("close"));
    assert_eq!(client.0.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(running.store.calls(), 0);
}

#[tokio::test]
async fn a_header_of_a_proxy_names_the_client() {
    let mut setup = setup();
    setup.settings.proxies = std::iter::once(Network::parse("127.0.0.0/8").unwrap()).collect();
    let site = r#"{"http": "serve", "status": 410, "text": "served", "deny": ["192.0.2.1"]}"#;
    let running = start(Scripted::new([bare("serve.example", site)]), &setup);
    for (client, status) in [("192.0.2.1", 403), ("192.0.2.2", 410)] {
        let header = format!("PROXY TCP4 {client} 198.51.100.2 49152 80\r\n");
        let request = format!("{header}GET / HTTP/1.1\r\nHost: serve.example\r\n\r\n");
        let answer = Client::connect(running.http).await.send(&request).await;
        assert_eq!(answer.status, status, "{client}");
    }
}

#[tokio::test]
async fn keep_alive_goes_on_after_the_certificate_came() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    let waits = site("until-certificate");
    let running = serve([bare("wait.example", &waits)]);
    watch(&running);
    let mut client = Client::connect(running.http).await;
    assert_eq!(client.get("wait.example", "/").await.status, 410);
    let mut issued = certified("wait.example", &pair, &waits);
    issued.record.version = 1;
    running.store.put(issued);
    change(&running, 1, "wait.example");
    let answer = client.get("wait.example", "/").await;
    answer.leads_to_https(&running, "wait.example", "/");
    let mut revoked = bare("wait.example", &waits);
    revoked.record.version = 2;
    running.store.put(revoked);
    change(&running, 2, "wait.example");
    assert_eq!(client.get("wait.example", "/").await.status, 410);
    running.store.remove("wait.example");
    change(&running, 3, "wait.example");
    let answer = client.get("wait.example", "/").await;
    answer.leads_to_https(&running, "wait.example", "/");
}

/// Browsers pass over such a field; one that believed it would be locked out of the host
/// (RFC 6797, section 7.2).
#[tokio::test]
async fn hsts_is_never_sent_and_upstreams_see_http() {
    let own = r#"{"http": "serve", "hsts": {"max_age": 60}, "status": 410}"#;
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let mut heads = upstream.answering(
        "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=60\r\nContent-Length: 2\r\n\r\nok",
    );
    let servers = format!(r#"{{"servers": ["{url}"], "forwarded": true}}"#);
    let other = format!(r#"{{"http": "serve", "upstream": {servers}}}"#);
    let mut setup = setup();
    setup.allow.push("127.0.0.0/8".into());
    let hosts = [bare("own.example", own), bare("other.example", &other)];
    let running = start(Scripted::new(hosts), &setup);
    for (name, status) in [("own.example", 410), ("other.example", 200)] {
        let answer = get(&running, name, "/").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.field("strict-transport-security"), None);
    }
    let head = heads.recv().await.unwrap().to_ascii_lowercase();
    assert!(head.contains("x-forwarded-proto: http\r\n"), "{head}");
    assert!(head.contains(";proto=http\r\n"), "{head}");
}

/// A visitor that browsers send to port 80 would else never get the host a certificate.
#[tokio::test]
async fn a_plain_visit_orders_a_certificate() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    let hosts = ["wait.example", "serve.example"];
    let sites = ["until-certificate", "serve"].map(site);
    let records = hosts
        .iter()
        .zip(&sites)
        .map(|(name, site)| bare(name, site));
    let store = Arc::new(Scripted::new(records));
    let issuer = issuer(&store, pair);
    let mut setup = setup();
    setup.obtain = issuer.clone();
    let running = start(store, &setup);
    for name in hosts {
        assert_eq!(get(&running, name, "/").await.status, 410, "nobody waits");
    }
    while issuer.calls() == 0 {
        tokio::task::yield_now().await;
    }
    issuer.release(1);
    loop {
        // What is issued has the site of `issuer`, which does not serve plain HTTP.
        let answer = get(&running, "wait.example", "/").await;
        if answer.status == 308 {
            break;
        }
        assert_eq!(answer.status, 410);
    }
    assert_eq!(get(&running, "serve.example", "/").await.status, 410);
    assert_eq!(issuer.calls(), 1);
}

/// An order that it began would be its successor's to wait for.
#[tokio::test]
async fn a_process_that_is_replaced_orders_no_certificate() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    let store = Arc::new(Scripted::new([
        bare("wait.example", &site("until-certificate")),
        bare("serve.example", &site("serve")),
    ]));
    let issuer = issuer(&store, pair);
    let mut setup = setup();
    setup.obtain = issuer.clone();
    let running = start(store, &setup);
    let mut kept = Client::connect(running.http).await;
    let mut other = Client::connect(running.http).await;
    for client in [&mut kept, &mut other] {
        assert_eq!(client.get("serve.example", "/").await.status, 410);
    }
    running.shutdown.leave();
    // Until the workers have heard of it.
    loop {
        let answer = other.get("serve.example", "/").await;
        assert_eq!(answer.status, 410);
        if answer.field("connection") == Some("close") {
            break;
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = kept.get("wait.example", "/").await;
    assert_eq!((answer.status, &*answer.body), (410, "served"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(issuer.calls(), 0);
}

#[tokio::test]
async fn bodies_and_ends_are_as_over_tls() {
    let running = serve([bare("serve.example", &site("serve"))]);
    let head = "POST / HTTP/1.1\r\nHost: serve.example\r\n";
    let body = "x".repeat(100_000);
    let upload = format!("{head}Content-Length: 100000\r\n\r\n{body}");
    // hyper takes LF alone for the end of a line.
    let smuggled = format!("{head}X: y\nZ: a\r\n\r\n");
    for (request, status) in [(upload, 410), (smuggled, 400)] {
        let mut client = Client::connect(running.http).await;
        assert_eq!(client.send(&request).await.status, status);
    }
    let mut client = Client::connect(running.http).await;
    let last = "GET / HTTP/1.1\r\nHost: serve.example\r\nConnection: close\r\n\r\n";
    assert_eq!(client.send(last).await.status, 410);
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}

/// Waits until a look at a host has asked the store.
async fn looked_at(running: &Running) {
    let before = running.store.calls();
    watch(running);
    let asked = async {
        while running.store.calls() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    patiently(asked).await;
}

#[tokio::test]
async fn websockets_last_as_long_as_their_hosts() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    for (asked, removed) in [
        ("ws.example", "ws.example"),
        ("www.example", "ws.example"),
        ("www.example", "www.example"),
    ] {
        let upstream = Upstream::bind().await;
        let url = upstream.url();
        let document = format!(r#"{{"http": "until-certificate", "upstream": "{url}"}}"#);
        let www = r#"{"http": "until-certificate", "as": "ws.example"}"#;
        let mut setup = setup();
        setup.allow.push("127.0.0.0/8".into());
        setup.settings.limits.host_look = Duration::from_millis(50);
        let hosts = [bare("ws.example", &document), bare("www.example", www)];
        let running = start(Scripted::new(hosts), &setup);
        let mut client = Wire::new(TcpStream::connect(running.http).await.unwrap());
        let upgrade = format!(
            "GET / HTTP/1.1\r\nHost: {asked}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        client.send(upgrade).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(SWITCH).await;
        assert!(client.head().await.starts_with("HTTP/1.1 101"));
        looked_at(&running).await;
        // A certificate that comes ends nothing.
        let issued = certified("ws.example", &pair, &document);
        running.store.put(issued);
        looked_at(&running).await;
        server.send("on").await;
        client.until("on").await;
        running.store.remove(removed);
        watch(&running);
        patiently(client.end()).await;
    }
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
