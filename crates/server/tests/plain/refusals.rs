//! Requests that plain HTTP redirects, since TLS would refuse them.

use std::sync::Arc;

use sekisho_certs::{ClientCa, Found, OpenKey};
use sekisho_testkit::{Key, TestCa};

use crate::{Client, bare, certified, get, serve, site};

/// Makes a host whose clients are asked for a certificate.
fn asking(name: &str, optional: bool) -> Found<OpenKey> {
    let mut found = bare(name, &site("serve"));
    let ca = ClientCa::check(TestCa::new().root_pem().as_bytes());
    found.record.tls.client_ca = Some(Arc::new(ca.unwrap()));
    found.record.tls.client_optional = optional;
    found
}

#[tokio::test]
async fn nothing_that_tls_refuses() {
    let pair = TestCa::new().issue(&["*.example"], Key::P256);
    let mut disabled = bare("off.example", &site("serve"));
    disabled.record.disabled = true;
    let outside = r#"{"http": "serve", "root": "/etc"}"#;
    let wrong = r#"{"http": "serve", "nonsense": 1}"#;
    let running = serve([
        asking("required.example", false),
        asking("optional.example", true),
        disabled,
        bare("outside.example", outside),
        bare("wrong.example", wrong),
        certified("wrong-tls.example", &pair, wrong),
    ]);
    for name in [
        "required.example",
        "optional.example",
        "off.example",
        "outside.example",
        "wrong.example",
        "wrong-tls.example",
        "unknown.example",
    ] {
        for _ in 0..2 {
            let answer = get(&running, name, "/a?b").await;
            answer.leads_to_https(&running, name, "/a?b");
        }
    }
}

#[tokio::test]
async fn passwords_and_certificates_belong_to_tls() {
    let hash = "$apr1$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR/";
    let auth = format!(r#"{{"realm": "r", "users": {{"ann": "{hash}"}}}}"#);
    let document = format!(
        r#"{{"http": "serve", "status": 410, "paths": [
            {{"path": "/staff", "status": 410, "auth": {auth}}},
            {{"path": "/partners", "status": 410, "client_certificate": true}}
        ]}}"#
    );
    let running = serve([bare("serve.example", &document)]);
    let mut client = Client::connect(running.http).await;
    assert_eq!(client.get("serve.example", "/open").await.status, 410);
    for path in ["/staff", "/staff/a?b", "/partners"] {
        let answer = client.get("serve.example", path).await;
        answer.leads_to_https(&running, "serve.example", path);
        assert_eq!(answer.field("www-authenticate"), None);
    }
}

#[tokio::test]
async fn a_store_that_fails_redirects_what_is_not_cached() {
    let hosts = ["a.example", "b.example"].map(|name| bare(name, &site("serve")));
    let running = serve(hosts);
    assert_eq!(get(&running, "a.example", "/").await.status, 410);
    running.store.fail(true);
    assert_eq!(get(&running, "a.example", "/").await.status, 410);
    let answer = get(&running, "b.example", "/").await;
    answer.leads_to_https(&running, "b.example", "/");
    running.store.fail(false);
    assert_eq!(get(&running, "b.example", "/").await.status, 410);
}

#[tokio::test]
async fn a_host_that_is_no_name_gets_400() {
    let running = serve([bare("serve.example", &site("serve"))]);
    for host in ["", "127.0.0.1", "a/../b"] {
        assert_eq!(get(&running, host, "/").await.status, 400, "{host}");
    }
    let other = "GET http://serve.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n";
    let mut client = Client::connect(running.http).await;
    assert_eq!(client.send(other).await.status, 410, "RFC 9112, 3.2.2");
}
