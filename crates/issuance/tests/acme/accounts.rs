//! Accounts: made, stored, rotated and ended.

use sekisho_certs::credential::Secret;
use sekisho_issuance::acme::{Blame, Ca, ExternalAccount, Fault, NewAccount, Retry};
use sekisho_testkit::services::PebbleOptions;

use crate::fixture::{Fixture, agreed, names, order_of, settings};

#[tokio::test]
async fn an_account_is_kept_as_bytes() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let bytes = account.to_bytes();
    let ca = Ca::new(&settings(&fixture.pebble)).unwrap();
    let stored = ca.account(&bytes).unwrap();
    assert_eq!(stored.id(), account.id());
    assert!(!format!("{stored:?}{bytes:?}").contains("key"));
    stored
        .set_contact(&["mailto:two@example.com".into()])
        .await
        .unwrap();
    let names = names(&["a.example"]);
    stored.order(&order_of(&names)).await.unwrap();
    let error = ca.account(&Secret::new(b"{}".to_vec())).unwrap_err();
    assert!(
        error.to_string().contains("the stored account is damaged"),
        "{error}"
    );
}

#[tokio::test]
async fn an_account_belongs_to_one_directory() {
    let (one, other) = (Fixture::start(), Fixture::start());
    let bytes = one.account().await.to_bytes();
    let error = other.ca.account(&bytes).unwrap_err();
    assert!(error.to_string().contains(one.ca.directory()), "{error}");
}

#[tokio::test]
async fn terms_must_be_agreed_to() {
    let fixture = Fixture::start();
    let new = NewAccount {
        agree: false,
        ..agreed()
    };
    let error = fixture.ca.create_account(&new).await.unwrap_err();
    assert!(
        matches!(&error.fault, Fault::Setting { key: "agree", why } if why.contains("agreement to data:")),
        "{error}"
    );
    let mut new = agreed();
    new.contact = vec!["tel:+1".into()];
    let error = fixture.ca.create_account(&new).await.unwrap_err();
    assert_eq!(error.problem().unwrap().kind, "unsupportedContact");
    assert_eq!(
        (error.blame(), error.retry()),
        (Blame::Operator, Retry::Never)
    );
}

#[tokio::test]
async fn an_external_account_is_bound_where_the_ca_asks() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let options = PebbleOptions {
        external_account: Some(("kid-1".into(), key.into())),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(&options);
    assert!(fixture.ca.meta().await.unwrap().external_account_required);
    let with = |id: &str, key: &str| NewAccount {
        external: Some(ExternalAccount {
            id: id.into(),
            key: Secret::new(key.into()),
        }),
        ..agreed()
    };
    let wrong = "b10lLJs8l1GPIzsLP0s6pMt8O0XVGnfTaCeROxQM0BIt2XrJMDHJZBM5NuQmQJQH";
    for (new, named, says) in [
        (agreed(), "eab_id", "asks for an external account"),
        (
            with("kid-1", wrong),
            "eab_key",
            "refuses this external account",
        ),
        (
            with("kid-2", key),
            "eab_key",
            "refuses this external account",
        ),
        (with("kid-1", "not base64!"), "eab_key", "not base64url"),
    ] {
        let error = fixture.ca.create_account(&new).await.unwrap_err();
        assert!(
            matches!(&error.fault, Fault::Setting { key, why } if *key == named && why.contains(says)),
            "{error}"
        );
        assert_eq!(
            (error.blame(), error.retry()),
            (Blame::Operator, Retry::Never)
        );
    }
    let padded = format!("{key}\n");
    let account = fixture
        .ca
        .create_account(&with("kid-1", &padded))
        .await
        .unwrap();
    assert!(account.id().starts_with("https://"));
}

#[tokio::test]
async fn a_rotated_key_replaces_the_old_one() {
    let fixture = Fixture::start();
    let old = fixture.account().await;
    let new = old.rotate().await.unwrap();
    assert_eq!(new.id(), old.id());
    assert_ne!(new.to_bytes(), old.to_bytes());
    let names = names(&["a.example"]);
    let error = old.order(&order_of(&names)).await.unwrap_err();
    assert_eq!(error.to_string().split(':').next(), Some("pebble"));
    let stored = fixture.ca.account(&new.to_bytes()).unwrap();
    fixture.issue(&stored, &order_of(&names)).await;
}

#[tokio::test]
async fn a_deactivated_account_orders_nothing() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    account.deactivate().await.unwrap();
    let names = names(&["a.example"]);
    let error = account.order(&order_of(&names)).await.unwrap_err();
    assert_eq!(
        (error.blame(), error.retry()),
        (Blame::Operator, Retry::Never),
        "{error}"
    );
}
