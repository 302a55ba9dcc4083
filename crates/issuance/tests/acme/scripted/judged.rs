//! The challenge decides what a validation came to, not the request that announced it.

use super::*;

/// What a CA does with a challenge whose request it answers with an `error` in it.
#[tokio::test]
async fn the_challenge_is_judged_and_not_the_request_that_announces_it() {
    let ca = Scripted::start();
    let error = r#"{"type": "urn:ietf:params:acme:error:connection", "detail": "no way"}"#;
    for (authorization, challenge, is_failed) in [
        ("invalid", "invalid", true),
        // step-ca leaves both pending.
        ("pending", "pending", true),
        // RFC 8555, section 8.2: the CA tries again.
        ("pending", "processing", false),
        ("valid", "valid", false),
    ] {
        ca.put_challenge(("pending", "pending"), None);
        let mut order = ca.order_of_a().await;
        order.authorizations().await.unwrap();
        ca.put_challenge((authorization, challenge), Some(error));
        let told = order.set_ready("a.example", ChallengeType::Http01).await;
        let Some(failed) = told.err() else {
            assert!(!is_failed, "{challenge}");
            continue;
        };
        assert!(is_failed, "{challenge}: {failed}");
        assert_eq!(
            failed.to_string(),
            format!(
                "scripted: validating {}: a.example: connection: no way",
                ca.url("order")
            )
        );
        assert!(matches!(failed.fault, Fault::Invalid(_)), "{failed}");
        assert_eq!(
            (failed.blame(), failed.retry()),
            (Blame::Host, Retry::Later)
        );
    }
}

#[tokio::test]
async fn a_refused_request_says_nothing_of_the_challenge() {
    let ca = Scripted::start();
    ca.put_challenge(("pending", "pending"), None);
    let mut order = ca.order_of_a().await;
    order.authorizations().await.unwrap();
    let problem = r#"{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "slow down"}"#;
    let limited = Answer {
        body: problem.into(),
        ..Answer::status(429)
    };
    ca.put("challenge", limited.with("retry-after", "30"));
    let told = order.set_ready("a.example", ChallengeType::Http01).await;
    let error = told.unwrap_err();
    assert!(error.is_rate_limit(), "{error}");
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(30)));
}
