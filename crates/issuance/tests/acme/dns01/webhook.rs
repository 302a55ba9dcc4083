//! Servers in the convention of lego's `httpreq`.

use std::path::Path;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use sekisho_certs::credential::Secret;
use sekisho_issuance::solver::dns01::{Dns01, Fault, Waits, Webhook, Writer};
use sekisho_testkit::services::Knot;
use sekisho_testkit::{Answer, Endpoint, Key, Speaks, TestCa};

use super::{PATIENCE, SHORT, knot, presented, settings};

fn webhook(url: &str, root: Option<&Path>) -> Result<Writer, Fault> {
    let login = ("user".into(), Secret::new(b"pass:word".to_vec()));
    let webhook = Webhook::new(url, root, Some(&login));
    webhook.map(|webhook| Writer::Webhook(Arc::new(webhook)))
}

fn solver(knot: &Knot, webhook: Result<Writer, Fault>) -> Dns01 {
    Dns01::new(settings(knot, webhook.unwrap()), Waits::default())
}

#[tokio::test]
async fn a_webhook_is_told_what_to_do() {
    let knot = knot("_acme-challenge.a TXT x");
    let (ca, folder) = (TestCa::new(), tempfile::tempdir().unwrap());
    let root = folder.path().join("root.pem");
    std::fs::write(&root, ca.root_pem()).unwrap();
    let endpoint = Endpoint::start(Speaks::Http2(&ca.issue(&["127.0.0.1"], Key::P256)));
    for path in ["/dns/present", "/dns/cleanup"] {
        endpoint.put(path, Answer::status(204));
    }
    let url = format!("https://{}/dns/", endpoint.address);
    let webhook = webhook(&url, Some(&root));
    assert!(!format!("{webhook:?}").contains("word"));
    let solver = solver(&knot, webhook);
    solver.present(&presented("x")).await.unwrap();
    solver.clean_up(&presented("x")).await.unwrap();
    let asked = endpoint.asked();
    let targets: Vec<_> = asked.iter().map(|asked| asked.target.as_str()).collect();
    assert_eq!(targets, ["/dns/present", "/dns/cleanup"]);
    for asked in asked {
        let json = r#"{"fqdn":"_acme-challenge.a.example.test.","value":"x"}"#;
        assert_eq!((asked.method.as_str(), asked.body.as_str()), ("POST", json));
        assert_eq!(asked.fields[CONTENT_TYPE], "application/json");
        // base64 of `user:pass:word`
        assert_eq!(asked.fields[AUTHORIZATION], "Basic dXNlcjpwYXNzOndvcmQ=");
    }
}

#[tokio::test]
async fn a_webhook_that_fails_is_named() {
    let knot = knot("");
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.put("/cleanup", Answer::status(401));
    let url = format!("http://{}", endpoint.address);
    let solver = solver(&knot, webhook(&url, None));
    let error = solver.clean_up(&presented("x")).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Refused(_)), "{error}");
    let expected = format!("webhook {url}/cleanup: it answered 401 Unauthorized");
    assert!(error.to_string().ends_with(&expected), "{error}");
    drop(endpoint);
    let error = solver.clean_up(&presented("x")).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_webhook_that_hangs_is_given_up() {
    let knot = knot("");
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.put("/present", Answer::ok("").after(PATIENCE));
    let webhook = webhook(&format!("http://{}", endpoint.address), None);
    let mut settings = settings(&knot, webhook.unwrap());
    settings.deadline = SHORT;
    let solver = Dns01::new(settings, Waits::default());
    let error = solver.present(&presented("x")).await.unwrap_err();
    assert!(
        error.to_string().ends_with("not done within 0.1 s"),
        "{error}"
    );
    assert_eq!(endpoint.times("/present"), 1);
}

#[tokio::test]
async fn urls_with_passwords_are_refused_and_not_repeated() {
    for url in [
        "ftp://a.test",
        "a.test",
        "https://u:hunter2@a.test",
        "http://a.test?hunter2",
    ] {
        let fault = webhook(url, None).unwrap_err();
        assert!(
            matches!(fault, Fault::Setting { key: "webhook", .. }),
            "{fault}"
        );
        assert!(!fault.to_string().contains("hunter2"), "{fault}");
    }
}
