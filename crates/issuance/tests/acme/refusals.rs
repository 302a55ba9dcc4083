//! Refusals of Pebble, and a Pebble that is not there.

use sekisho_issuance::acme::{Blame, Ca, ChallengeType, Fault, OrderStatus, Retry};
use sekisho_testkit::TestCa;
use sekisho_testkit::services::PebbleOptions;

use crate::fixture::{Fixture, PATIENCE, finish, names, order_of, settings};

#[tokio::test]
async fn a_failed_validation_names_the_host_and_why() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["good.example", "bad.example"]);
    let mut order = account.order(&order_of(&names)).await.unwrap();
    for authorization in order.authorizations().await.unwrap() {
        let challenge = authorization.challenge(ChallengeType::Http01).unwrap();
        if authorization.name == "good.example" {
            let server = fixture.pebble.challenges();
            server.add_http01(&challenge.token, &challenge.key_authorization);
        }
        order
            .set_ready(&authorization.name, challenge.kind)
            .await
            .unwrap();
    }
    let error = finish(&mut order, &names, None).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("pebble: validating"), "{text}");
    assert!(text.contains("bad.example: unauthorized: "), "{text}");
    assert!(!text.contains("good.example: "), "{text}");
    assert_eq!((error.blame(), error.retry()), (Blame::Host, Retry::Later));
    let order = account.resume(order.url()).await.unwrap();
    assert_eq!(order.status(), OrderStatus::Invalid);
}

#[tokio::test]
async fn a_name_that_the_ca_does_not_serve_is_refused_for_good() {
    let options = PebbleOptions {
        blocked: vec!["blocked.example".into()],
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(&options);
    let account = fixture.account().await;
    let names = names(&["a.blocked.example"]);
    let error = account.order(&order_of(&names)).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ordering a.blocked.example: rejectedIdentifier"),
        "{error}"
    );
    assert_eq!((error.blame(), error.retry()), (Blame::Host, Retry::Never));
}

#[tokio::test]
async fn a_wildcard_offers_only_dns() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["*.a.example"]);
    let mut order = account.order(&order_of(&names)).await.unwrap();
    let authorizations = order.authorizations().await.unwrap();
    let kinds: Vec<_> = authorizations[0]
        .challenges
        .iter()
        .map(|one| one.kind)
        .collect();
    assert_eq!(authorizations[0].name, "*.a.example");
    assert_eq!(kinds, [ChallengeType::Dns01]);
    let error = order
        .set_ready("*.a.example", ChallengeType::Http01)
        .await
        .unwrap_err();
    assert!(matches!(error.fault, Fault::Unsupported(_)), "{error}");
    let early = order
        .wait_ready(std::time::Duration::ZERO)
        .await
        .unwrap_err();
    assert!(
        matches!(early.retry(), Retry::After(pause) if pause < PATIENCE),
        "{early}"
    );
}

#[tokio::test]
async fn a_wrong_root_is_named() {
    let fixture = Fixture::start();
    let file = fixture.pebble.root().with_file_name("other.pem");
    std::fs::write(&file, TestCa::new().root_pem()).unwrap();
    let mut settings = settings(&fixture.pebble);
    settings.root = Some(file.clone());
    let error = Ca::new(&settings).unwrap().meta().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.fault, Fault::Untrusted(_)), "{text}");
    assert!(
        text.contains("ca = ") && text.contains(file.to_str().unwrap()),
        "{text}"
    );
    assert_eq!(error.blame(), Blame::Operator);
}

#[tokio::test]
async fn a_ca_that_is_not_there_is_named_with_its_address() {
    let fixture = Fixture::start();
    let settings = settings(&fixture.pebble);
    let account = fixture.account().await;
    let host = settings
        .directory
        .trim_start_matches("https://")
        .trim_end_matches("/dir");
    drop(fixture);
    let names = names(&["a.example"]);
    let error = account.order(&order_of(&names)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{text}");
    assert!(
        text.starts_with("pebble: ordering a.example: ") && text.contains(host),
        "{text}"
    );
    assert_eq!((error.blame(), error.retry()), (Blame::Ca, Retry::Later));
}
