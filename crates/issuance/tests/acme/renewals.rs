//! Tests of what follows a certificate: renewal information and revocation.

use std::time::Duration;

use rustls_pki_types::CertificateDer;
use sekisho_certs::Clock;
use sekisho_issuance::acme::{RenewalInfo, Retry, RevocationReason};
use sekisho_issuance::schedule::Window;
use sekisho_testkit::TestCa;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::fixture::{Fixture, leaf, names, order_of};

#[tokio::test]
async fn renewal_information_is_asked_for_and_an_order_replaces_once() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    // Pebble compares serial numbers as text, here with and there without the zero
    // that DER puts before a high bit: it does not find such a certificate.
    let first = loop {
        let issued = fixture.issue(&account, &order_of(&names)).await;
        if serial(leaf(&issued))[0] != 0 {
            break issued;
        }
    };
    let info = fixture.ca.renewal_info(leaf(&first)).await.unwrap();
    let now = Clock::System.now();
    let Window { start, end } = info.window;
    assert!(now < start && start < end && end < first.not_after());
    assert_eq!(info.ask_again, Duration::from_secs(6 * 60 * 60));
    let set = r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z",
        "end": "2026-01-02T05:04:05+01:00"}, "explanationURL": "https://ca.example/why"}"#;
    fixture
        .pebble
        .set_renewal_info(&pem(leaf(&first)), set)
        .await;
    let info = fixture.ca.renewal_info(leaf(&first)).await.unwrap();
    let expected = RenewalInfo {
        window: Window {
            start: 1_767_323_045,
            end: 1_767_326_645,
        },
        ask_again: Duration::from_secs(6 * 60 * 60),
    };
    assert_eq!(info, expected);
    let mut new = order_of(&names);
    new.replaces = Some(leaf(&first));
    fixture.issue(&account, &new).await;
    let error = account.order(&new).await.unwrap_err();
    assert_eq!(error.problem().unwrap().kind, "alreadyReplaced", "{error}");
    assert_eq!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn unusable_renewal_information_is_an_error() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    let credential = fixture.issue(&account, &order_of(&names)).await;
    let certificate = pem(leaf(&credential));
    for broken in [
        "soon",
        r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z"}}"#,
        r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z", "end": "2026-01-01T03:04:05Z"}}"#,
    ] {
        fixture.pebble.set_renewal_info(&certificate, broken).await;
        let error = fixture
            .ca
            .renewal_info(leaf(&credential))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("unusable"), "{error}");
    }
    let foreign = TestCa::new().root();
    let error = fixture.ca.renewal_info(&foreign).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("pebble: asking for renewal information"),
        "{error}"
    );
}

#[tokio::test]
async fn a_revoked_certificate_is_to_be_renewed_at_once() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    let credential = fixture.issue(&account, &order_of(&names)).await;
    let revoked = leaf(&credential);
    let reason = Some(RevocationReason::KeyCompromise);
    account.revoke(revoked, reason.clone()).await.unwrap();
    // The first answer may have been lost.
    account.revoke(revoked, reason).await.unwrap();
    let info = fixture.ca.renewal_info(revoked).await.unwrap();
    assert!(info.window.start < Clock::System.now());
    let other = TestCa::new().root();
    let error = account.revoke(&other, None).await.unwrap_err();
    assert!(
        error.to_string().contains("pebble: revoking a certificate"),
        "{error}"
    );
}

fn serial(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    certificate.raw_serial().to_vec()
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let base64 = data_encoding::BASE64.encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
}
