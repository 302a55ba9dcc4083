//! A scripted CA for what Pebble can't do.

mod judged;

use std::time::Duration;

use sekisho_certs::credential::{CredentialError, Secret};
use sekisho_issuance::acme::{
    Account, Blame, Ca, CaSettings, ChallengeType, Error, ExternalAccount, Fault, ForeignKey,
    NewAccount, Order, Retry,
};
use sekisho_testkit::{Answer, Endpoint, Key, Pair, Speaks, TestCa};
use tempfile::TempDir;

use crate::fixture::{PATIENCE, agreed, fetch, names, order_of};

/// CA whose answers a test sets. It checks no signature.
pub(crate) struct Scripted {
    pub(crate) endpoint: Endpoint,
    issuer: TestCa,
    pub(crate) ca: Ca,
    pub(crate) settings: CaSettings,
    _folder: TempDir,
}

impl Scripted {
    pub(crate) fn start() -> Self {
        Self::with_deadline(PATIENCE)
    }

    pub(crate) fn with_deadline(deadline: Duration) -> Self {
        let issuer = TestCa::new();
        let endpoint = Endpoint::start(Speaks::Http2(&issuer.issue(&["127.0.0.1"], Key::P256)));
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root.pem");
        std::fs::write(&root, issuer.root_pem()).unwrap();
        let settings = CaSettings {
            name: "scripted".into(),
            directory: format!("https://{}/dir", endpoint.address),
            root: Some(root),
            deadline,
        };
        let scripted = Self {
            ca: Ca::new(&settings).unwrap(),
            endpoint,
            issuer,
            settings,
            _folder: folder,
        };
        let urls = ["newNonce", "newAccount", "newOrder"];
        let urls = urls.map(|name| format!(r#""{name}": "{}""#, scripted.url(name)));
        scripted.put("dir", Answer::ok(format!("{{{}}}", urls.join(","))));
        scripted.put("newNonce", Answer::ok(""));
        let account = Answer::status(201).with("location", &scripted.url("account"));
        scripted.put("newAccount", account);
        scripted
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("https://{}/{name}", self.endpoint.address)
    }

    pub(crate) fn put(&self, name: &str, answer: Answer) {
        let answer = answer.with("replay-nonce", "nonce");
        self.endpoint.put(&format!("/{name}"), answer);
    }

    async fn account(&self) -> Account {
        self.ca.create_account(&agreed()).await.unwrap()
    }

    async fn refused(&self) -> Error {
        let names = names(&["a.example"]);
        self.account()
            .await
            .order(&order_of(&names))
            .await
            .unwrap_err()
    }

    /// Makes an order of this status, and returns it.
    async fn order(&self, status: &str, fields: &[(&'static str, &str)]) -> Order {
        let json = format!(
            r#"{{"status": "{status}", "authorizations": [], "finalize": "{}",
                "certificate": "{}"}}"#,
            self.url("finalize"),
            self.url("certificate")
        );
        let with = |answer: Answer, (name, value): &(&'static str, &str)| answer.with(name, value);
        self.put("order", fields.iter().fold(Answer::ok(json), with));
        self.account()
            .await
            .resume(&self.url("order"))
            .await
            .unwrap()
    }

    /// Sets the status of the authorization of `a.example` and of its challenge.
    fn put_challenge(&self, (authorization, challenge): (&str, &str), error: Option<&str>) {
        let error = error.map_or(String::new(), |error| format!(r#", "error": {error}"#));
        let challenge = format!(
            r#"{{"type": "http-01", "url": "{}", "token": "token",
                "status": "{challenge}"{error}}}"#,
            self.url("challenge")
        );
        let json = format!(
            r#"{{"status": "{authorization}", "challenges": [{challenge}],
                "identifier": {{"type": "dns", "value": "a.example"}}}}"#
        );
        self.put("authorization", Answer::ok(json));
        self.put("challenge", Answer::ok(challenge));
    }

    /// Makes a pending order of `a.example`, and returns it.
    async fn order_of_a(&self) -> Order {
        let json = format!(
            r#"{{"status": "pending", "authorizations": ["{}"], "finalize": "{}"}}"#,
            self.url("authorization"),
            self.url("finalize")
        );
        self.put("order", Answer::ok(json));
        let account = self.account().await;
        account.resume(&self.url("order")).await.unwrap()
    }

    /// Fetches this pair's certificate as the answer to an order with this key.
    async fn fetched(&self, issued: &Pair, key: &Pair) -> Error {
        let chain = Answer::ok(issued.chain_pem());
        self.put(
            "certificate",
            chain.with("content-type", "application/pem-certificate-chain"),
        );
        let mut order = self.order("valid", &[]).await;
        let key = Secret::new(key.key_der().secret_der().to_vec());
        fetch(&mut order, &names(&["a.example"]), &key, None)
            .await
            .unwrap_err()
    }
}

#[tokio::test]
async fn a_rate_limit_says_until_when() {
    let ca = Scripted::start();
    let problem = r#"{"type": "urn:ietf:params:acme:error:rateLimited",
        "detail": "too many certificates (5) already issued"}"#;
    let limited = Answer {
        body: problem.into(),
        ..Answer::status(429)
    };
    ca.put("newOrder", limited.with("retry-after", "3600"));
    let error = ca.refused().await;
    assert_eq!(
        error.to_string(),
        "scripted: ordering a.example: rateLimited: too many certificates (5) already issued"
    );
    assert!(error.is_rate_limit());
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(3600)));
}

#[tokio::test]
async fn an_overloaded_ca_needs_no_problem_document() {
    let ca = Scripted::start();
    let busy = Answer {
        body: "<html>".into(),
        ..Answer::status(503)
    };
    let busy = busy.with("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    ca.put(
        "newOrder",
        busy.with("retry-after", "Sun, 06 Nov 1994 08:51:37 GMT"),
    );
    let error = ca.refused().await;
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(120)));
    assert_eq!(error.blame(), Blame::Ca);
}

#[tokio::test]
async fn a_failed_account_with_an_external_one_names_its_settings() {
    let ca = Scripted::start();
    let problem = r#"{"type": "urn:ietf:params:acme:error:serverInternal",
        "detail": "The server experienced an internal error"}"#;
    let external = Some(ExternalAccount {
        id: "kid-1".into(),
        key: Secret::new(
            b"zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W".to_vec(),
        ),
    });
    let bound = NewAccount {
        external,
        ..agreed()
    };
    for (status, body, says) in [
        (
            500,
            problem,
            "serverInternal: The server experienced an internal error",
        ),
        (500, "", "it answered 500"),
        (
            403,
            problem,
            "eab_key: the CA refuses this external account",
        ),
    ] {
        let body = body.into();
        let refused = Answer {
            body,
            ..Answer::status(status)
        };
        ca.put("newAccount", refused);
        let error = ca.ca.create_account(&bound).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(
            error.contains("eab_id") && error.contains("eab_key"),
            "{error}"
        );
    }
    let error = ca.ca.create_account(&agreed()).await.unwrap_err();
    assert!(!error.to_string().contains("eab_key"), "{error}");
}

#[tokio::test]
async fn a_busy_ca_is_asked_again_within_the_order() {
    let ca = Scripted::start();
    let account = ca.account().await;
    // These answers bring no nonce. That of the account serves the first order.
    let busy = Answer::status(503).with("retry-after", "0");
    for name in ["newOrder", "newNonce"] {
        let (own, other) = match name {
            "newNonce" => ("/newNonce", "/newOrder"),
            _ => ("/newOrder", "/newNonce"),
        };
        let fresh = Answer::ok("").with("replay-nonce", "nonce");
        ca.endpoint.put(other, fresh);
        ca.endpoint.put(own, busy.clone());
        let before = ca.endpoint.times(own);
        let names = names(&["a.example"]);
        let error = account.order(&order_of(&names)).await.unwrap_err();
        assert_eq!(ca.endpoint.times(own) - before, 4, "{error}");
        assert_eq!(error.retry(), Retry::After(Duration::ZERO), "{error}");
    }
    ca.put("newNonce", Answer::ok(""));
    let long = Answer::status(503).with("retry-after", "60");
    ca.endpoint.put("/newOrder", long);
    let before = ca.endpoint.times("/newOrder");
    let names = names(&["a.example"]);
    account.order(&order_of(&names)).await.unwrap_err();
    assert_eq!(ca.endpoint.times("/newOrder") - before, 1);
}

#[tokio::test]
async fn a_change_of_keys_is_repeated_with_another_nonce() {
    let ca = Scripted::start();
    let urls = ["newNonce", "newAccount", "newOrder", "keyChange"];
    let urls = urls.map(|name| format!(r#""{name}": "{}""#, ca.url(name)));
    ca.put("dir", Answer::ok(format!("{{{}}}", urls.join(","))));
    let problem = r#"{"type": "urn:ietf:params:acme:error:badNonce", "detail": "no"}"#;
    let refused = Answer {
        body: problem.into(),
        ..Answer::status(400)
    };
    ca.put("newAccount", refused);
    let pair = ca.issuer.issue(&["a.example"], Key::P256);
    let old = ForeignKey::read(pair.key_pem().as_bytes(), None).unwrap();
    let new = Secret::new(pair.key_der().secret_der().to_vec());
    let error = ca.ca.change_key(&old, &new).await.unwrap_err();
    assert!(error.to_string().contains("badNonce"), "{error}");
    assert_eq!(ca.endpoint.times("/newAccount"), 3);
    assert_eq!(ca.endpoint.times("/newNonce"), 3);
}

#[tokio::test]
async fn a_hang_ends_at_the_deadline() {
    let ca = Scripted::with_deadline(Duration::from_millis(300));
    let account = ca.account().await;
    ca.put("newOrder", Answer::status(201).after(PATIENCE * 10));
    let names = names(&["a.example"]);
    let error = account.order(&order_of(&names)).await.unwrap_err();
    assert!(
        error.to_string().ends_with("did not answer within 0.3 s"),
        "{error}"
    );
    assert_eq!((error.blame(), error.retry()), (Blame::Ca, Retry::Later));
}

#[tokio::test]
async fn a_lost_order_is_told_apart() {
    let ca = Scripted::start();
    let account = ca.account().await;
    let lost = account.resume(&ca.url("order")).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    assert!(lost.to_string().contains(&ca.url("order")), "{lost}");
    ca.put("order", Answer::status(500));
    let broken = account.resume(&ca.url("order")).await.unwrap_err();
    assert!(!broken.is_lost(), "{broken}");
}

#[tokio::test]
async fn the_ca_decides_when_to_look_again() {
    let ca = Scripted::start();
    let days = 24 * 60 * 60;
    for (said, seconds) in [("90", 90), ("18446744073709551615", 30 * days)] {
        let mut order = ca.order("pending", &[("retry-after", said)]).await;
        let error = order.wait_ready(PATIENCE).await.unwrap_err();
        let expected = Retry::After(Duration::from_secs(seconds));
        assert_eq!(error.retry(), expected, "{error}");
    }
    let mut order = ca.order("invalid", &[]).await;
    let error = order.wait_ready(PATIENCE).await.unwrap_err();
    assert!(error.to_string().contains("and not why"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_can_not_be_served_is_refused() {
    let ca = Scripted::start();
    let own = ca.issuer.issue(&["a.example"], Key::P256);
    let other = ca.issuer.issue(&["a.example"], Key::P256);
    let error = ca.fetched(&other, &own).await;
    let fault = &error.fault;
    assert!(
        matches!(
            fault,
            Fault::Certificate(CredentialError::KeyMismatch { .. })
        ),
        "{error}"
    );
    let old = ca
        .issuer
        .issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (2020, 4, 1));
    let error = ca.fetched(&old, &old).await;
    let fault = &error.fault;
    assert!(
        matches!(fault, Fault::Certificate(CredentialError::Expired(_))),
        "{error}"
    );
    let elsewhere = ca.issuer.issue(&["b.example"], Key::P256);
    let error = ca.fetched(&elsewhere, &elsewhere).await;
    assert!(
        error
            .to_string()
            .ends_with("the certificate is not for a.example"),
        "{error}"
    );
    assert_eq!(error.blame(), Blame::Ca);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_bounded_errors() {
    let ca = Scripted::start();
    for (body, says) in [
        ("<html>".to_owned(), "expected value"),
        (r#"{"newNonce": "x"}"#.to_owned(), "missing field"),
        ("[".repeat(1 << 20), "over 131072 bytes"),
        (directory("http://127.0.0.1/n"), "newNonce is"),
        (directory("no URL"), "newNonce is"),
    ] {
        let fresh = Scripted::start();
        fresh.put("dir", Answer::ok(body));
        let error = fresh.ca.create_account(&agreed()).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    ca.put("newOrder", Answer::status(201));
    assert!(matches!(ca.refused().await.fault, Fault::Malformed(_)));
    let plain = ca.url("order").replace("https", "http");
    let error = ca.account().await.resume(&plain).await.unwrap_err();
    assert!(error.to_string().ends_with("is not https"), "{error}");
}

fn directory(nonce: &str) -> String {
    let ca = "https://127.0.0.1";
    format!(r#"{{"newNonce": "{nonce}", "newAccount": "{ca}/a", "newOrder": "{ca}/o"}}"#)
}
