//! Tests hosts whose client certificates are optional.

use std::sync::Arc;

use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::{Found, OpenKey, Site};
use sekisho_testkit::Key;

use super::common::metrics::counted;
use super::common::{Scripted, Setup, start};
use super::{Cas, ask, change, connect, issue, visit};

/// Makes a host whose clients may show a certificate of the clients' CA.
fn optional(cas: &Cas, name: &str) -> Found<OpenKey> {
    let mut found = cas.host(name, Some(&cas.clients));
    found.record.tls.client_optional = true;
    found
}

#[tokio::test]
async fn clients_show_none_or_one_of_the_ca() {
    let cas = Cas::new();
    let hosts = Scripted::new([optional(&cas, "a.example")]);
    let running = start(hosts, &Setup::with_default("a.example"));
    let (own, wrong) = (issue(&cas.clients), issue(&cas.strangers));
    let (then, until) = ((2020, 1, 1), (2021, 1, 1));
    let expired = cas
        .clients
        .issue_valid(&["client.example"], Key::P256, then, until);
    let mut refused = 0;
    for tls12 in [false, true] {
        for certificate in [None, Some(&own)] {
            let config = cas.client(tls12, certificate);
            for wanted in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let kind = visit(&running, "a.example", &config).await.unwrap();
                assert_eq!(kind, wanted, "{tls12}");
            }
        }
        for (certificate, alert) in [(&wrong, "UnknownCA"), (&expired, "CertificateExpired")] {
            let config = cas.client(tls12, Some(certificate));
            let error = visit(&running, "a.example", &config).await.unwrap_err();
            assert!(error.to_string().contains(alert), "{tls12}: {error}");
            refused += 1;
            counted(&running, "client_certificate", refused).await;
        }
        // The default of the address has the same demands.
        let mut nameless = ClientConfig::clone(&cas.client(tls12, None));
        nameless.enable_sni = false;
        let visited = visit(&running, "a.example", &Arc::new(nameless)).await;
        assert_eq!(visited.unwrap(), HandshakeKind::Full);
    }
}

/// A connection without a certificate must not reach a host that requires one.
#[tokio::test]
async fn a_host_that_requires_one_is_not_reached() {
    let cas = Cas::new();
    let hosts = [
        optional(&cas, "a.example"),
        optional(&cas, "same.example"),
        cas.host("strict.example", Some(&cas.clients)),
    ];
    let running = start(Scripted::new(hosts), &Setup::default());
    let own = issue(&cas.clients);
    for certificate in [None, Some(&own)] {
        let config = cas.client(false, certificate);
        let mut stream = connect(&running, "a.example", &config).await.unwrap();
        for (name, wanted) in [
            ("same.example", "http/1.1 308"),
            ("strict.example", "http/1.1 421"),
        ] {
            let head = ask(&mut stream, name).await.unwrap();
            assert!(head.starts_with(wanted), "{name}: {head}");
        }
    }
    let config = cas.client(false, Some(&own));
    let mut stream = connect(&running, "strict.example", &config).await.unwrap();
    let head = ask(&mut stream, "a.example").await.unwrap();
    assert!(head.starts_with("http/1.1 421"), "{head}");
}

/// Sessions and connections without a certificate end with the demand.
#[tokio::test]
async fn a_certificate_that_becomes_required() {
    for tls12 in [false, true] {
        let cas = Cas::new();
        let hosts = Scripted::new([optional(&cas, "a.example")]);
        let running = start(hosts, &Setup::default());
        let own = issue(&cas.clients);
        let (with, without) = (cas.client(tls12, Some(&own)), cas.client(tls12, None));
        for config in [&with, &without] {
            visit(&running, "a.example", config).await.unwrap();
        }
        let mut open = connect(&running, "a.example", &without).await.unwrap();
        ask(&mut open, "a.example").await.unwrap();

        let required = cas.host("a.example", Some(&cas.clients));
        running.store.put(required);
        change(&running, "a.example");
        let head = ask(&mut open, "a.example").await.unwrap();
        assert!(head.starts_with("http/1.1 421"), "{head}");
        let error = visit(&running, "a.example", &without).await.unwrap_err();
        assert!(error.to_string().contains("CertificateRequired"), "{error}");
        let kind = visit(&running, "a.example", &with).await.unwrap();
        assert_eq!(kind, HandshakeKind::Full);
    }
}

/// A site may require what the handshake leaves optional, also of resumed sessions.
#[tokio::test]
async fn a_site_answers_403_without_a_certificate() {
    let cas = Cas::new();
    let mut found = optional(&cas, "a.example");
    found.record.site = Some(Site {
        format: 3,
        json: r#"{"status": 410, "client_certificate": true}"#.into(),
    });
    let running = start(Scripted::new([found]), &Setup::default());
    let own = issue(&cas.clients);
    for tls12 in [false, true] {
        for (certificate, wanted) in [(None, "http/1.1 403"), (Some(&own), "http/1.1 410")] {
            let config = cas.client(tls12, certificate);
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let mut stream = connect(&running, "a.example", &config).await.unwrap();
                let head = ask(&mut stream, "a.example").await.unwrap();
                assert!(head.starts_with(wanted), "{tls12}: {head}");
                assert_eq!(stream.get_ref().1.handshake_kind(), Some(kind));
            }
        }
    }
}
