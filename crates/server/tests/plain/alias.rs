//! Sites that answer in another host's place.

use std::fs;

use sekisho_certs::{Found, OpenKey, Tenant, TlsVersion};
use sekisho_testkit::{Key, TestCa, client};

use crate::common::upstream::{OK, Upstream};
use crate::common::{Scripted, start, status};
use crate::{Client, bare, certified, change, get, serve, setup, site, watch};

/// Makes the site of a host that answers as another.
fn as_of(name: &str) -> String {
    format!(r#"{{"as": "{name}", "http": "serve"}}"#)
}

fn alias(name: &str, of: &str) -> Found<OpenKey> {
    bare(name, &as_of(of))
}

#[tokio::test]
async fn a_host_answers_as_another() {
    let running = serve([
        bare("shop.example", &site("redirect")),
        alias("www.example", "shop.example"),
        bare("quiet.example", r#"{"as": "shop.example"}"#),
        bare("*.w.example", &site("serve")),
        alias("x.example", "a.w.example"),
    ]);
    for _ in 0..2 {
        for name in ["www.example", "x.example"] {
            let answer = get(&running, name, "/a").await;
            assert_eq!((answer.status, &*answer.body), (410, "served"), "{name}");
        }
        // Each host has its own key `http`.
        for name in ["shop.example", "quiet.example"] {
            let answer = get(&running, name, "/a").await;
            answer.leads_to_https(&running, name, "/a");
        }
    }
}

#[tokio::test]
async fn over_tls_the_certificate_is_its_own() {
    let ca = TestCa::new();
    let pair = ca.issue(&["www.example"], Key::P256);
    let running = serve([
        bare("shop.example", &site("redirect")),
        certified("www.example", &pair, &as_of("shop.example")),
    ]);
    let line = status(&running, "www.example", client::config(&ca)).await;
    assert!(line.unwrap().contains(" 410 "));
}

#[tokio::test]
async fn folders_have_its_name_and_upstreams_the_name_asked() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("shop.example")).unwrap();
    fs::write(folder.path().join("shop.example/index.html"), "page").unwrap();
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let mut heads = upstream.answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let root = folder.path().display();
    let document = format!(
        r#"{{"root": "{root}/{{host}}", "paths": [{{"path": "/app", "upstream": "{url}"}}]}}"#
    );
    let mut setup = setup();
    setup.allow.push("127.0.0.0/8".into());
    let hosts = [
        bare("shop.example", &document),
        alias("www.example", "shop.example"),
    ];
    let running = start(Scripted::new(hosts), &setup);
    assert_eq!(get(&running, "www.example", "/").await.body, "page");
    assert_eq!(get(&running, "www.example", "/app").await.body, "ok");
    let head = heads.recv().await.unwrap().to_ascii_lowercase();
    assert!(head.contains("host: www.example\r\n"), "{head}");
}

#[tokio::test]
async fn what_can_not_answer_is_503() {
    let mut disabled = bare("off.example", &site("serve"));
    disabled.record.disabled = true;
    let mut foreign = bare("foreign.example", &site("serve"));
    foreign.record.tenant = Tenant::parse("other").unwrap();
    let mut newer = bare("newer.example", &site("serve"));
    newer.record.tls.min = TlsVersion::Tls13;
    let running = serve([
        disabled,
        foreign,
        newer,
        alias("circle-a.example", "circle-b.example"),
        alias("circle-b.example", "circle-a.example"),
        alias("self.example", "self.example"),
        alias("to-nothing.example", "nothing.example"),
        alias("to-off.example", "off.example"),
        alias("to-foreign.example", "foreign.example"),
        alias("to-newer.example", "newer.example"),
    ]);
    for name in [
        "circle-a.example",
        "circle-b.example",
        "self.example",
        "to-nothing.example",
        "to-off.example",
        "to-foreign.example",
        "to-newer.example",
    ] {
        for _ in 0..2 {
            let answer = get(&running, name, "/").await;
            assert_eq!(answer.status, 503, "{name}");
            assert!(answer.body.starts_with("The site of this host"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_removed_and_put_back() {
    let running = serve([
        bare("shop.example", &site("serve")),
        alias("www.example", "shop.example"),
    ]);
    watch(&running);
    for number in [1, 3] {
        assert_eq!(get(&running, "www.example", "/").await.status, 410);
        running.store.remove("shop.example");
        change(&running, number, "shop.example");
        assert_eq!(get(&running, "www.example", "/").await.status, 503);
        let mut back = bare("shop.example", &site("serve"));
        back.record.version = number + 1;
        running.store.put(back);
        change(&running, number + 1, "shop.example");
    }
    assert_eq!(get(&running, "www.example", "/").await.status, 410);
}

/// Else a client would have twice as much by asking for both.
#[tokio::test]
async fn rates_count_for_both_hosts_together() {
    let limited = r#"{"http": "serve", "status": 410, "rate": {"client": 1, "burst": 20}}"#;
    let running = serve([
        bare("shop.example", limited),
        alias("www.example", "shop.example"),
    ]);
    let mut passed = 0;
    for _ in 0..25 {
        for name in ["shop.example", "www.example"] {
            passed += usize::from(get(&running, name, "/").await.status == 410);
        }
    }
    // With a token each second, however slow this is.
    assert!((20..35).contains(&passed), "{passed}");
}

#[tokio::test]
async fn requests_in_flight_count_for_both_hosts_together() {
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let document = format!(r#"{{"http": "serve", "upstream": "{url}", "in_flight": 1}}"#);
    let mut setup = setup();
    setup.allow.push("127.0.0.0/8".into());
    let hosts = [
        bare("shop.example", &document),
        alias("www.example", "shop.example"),
    ];
    let running = start(Scripted::new(hosts), &setup);
    let mut waiting = Client::connect(running.http).await;
    let waiting = tokio::spawn(async move { waiting.get("shop.example", "/").await.status });
    let mut server = upstream.accept().await;
    server.head().await;
    assert_eq!(get(&running, "www.example", "/").await.status, 429);
    server.send(OK).await;
    assert_eq!(waiting.await.unwrap(), 200);
}

#[tokio::test]
async fn a_kept_connection_sees_that_the_other_tenant_changed() {
    let running = serve([
        bare("shop.example", &site("serve")),
        alias("www.example", "shop.example"),
    ]);
    watch(&running);
    let mut client = Client::connect(running.http).await;
    for (number, tenant, status) in [(1, "other", 503), (2, "", 410)] {
        let mut changed = bare("shop.example", &site("serve"));
        changed.record.version = number;
        changed.record.tenant = Tenant::parse(tenant).unwrap();
        running.store.put(changed);
        change(&running, number, "shop.example");
        let answer = client.get("www.example", "/").await;
        assert_eq!(answer.status, status, "{tenant}");
    }
}
