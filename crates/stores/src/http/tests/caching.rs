//! Entity tags and times.

use std::time::Duration;

use sekisho_testkit::Answer as Says;

use super::rig::Rig;

#[tokio::test]
async fn a_time_is_handed_on() {
    let rig = Rig::new(true);
    for (value, wanted) in [
        ("max-age=60", Some(60)),
        ("private, max-age=60", Some(60)),
        ("no-cache", Some(0)),
        ("no-store", Some(0)),
        ("max-age=31536000", Some(86_400)),
    ] {
        let stem = format!(
            "{}.example",
            value.replace(|c: char| !c.is_alphanumeric(), "-")
        );
        rig.put_with(&stem, |answer| answer.with("cache-control", value));
        let found = rig.found(&stem).await;
        assert_eq!(found.fresh_for, wanted.map(Duration::from_secs), "{value}");
    }
    rig.put("a.example");
    assert_eq!(rig.found("a.example").await.fresh_for, None);
}

#[tokio::test]
async fn what_holds_is_not_asked_for_again() {
    let rig = Rig::new(true);
    // The cache before this store has what comes without a tag.
    let for_a_minute = |answer: Says| answer.with("cache-control", "max-age=60");
    rig.put_with("a.example", for_a_minute);
    rig.found("a.example").await;
    rig.found("a.example").await;
    assert_eq!(rig.times("a.example"), 2);
    rig.put_with("a.example", |answer| {
        for_a_minute(answer).with("etag", "\"one\"")
    });
    let first = rig.found("a.example").await;
    let again = rig.found("a.example").await;
    assert_eq!(rig.times("a.example"), 3);
    assert_eq!(first.record, again.record);
    let left = again.fresh_for.unwrap();
    assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(60));
    for value in ["no-cache", "no-store", "max-age=0"] {
        rig.put_with("b.example", |answer| answer.with("cache-control", value));
        let before = rig.times("b.example");
        rig.found("b.example").await;
        rig.found("b.example").await;
        assert_eq!(rig.times("b.example"), before + 2, "{value}");
    }
}

/// Saves the call that each name below it would cost.
#[tokio::test]
async fn a_wildcard_that_holds_is_not_asked_for_by_each_name() {
    let rig = Rig::new(true);
    rig.put_with("_.b.example", |answer| {
        answer.with("cache-control", "max-age=60")
    });
    rig.says(
        "_.example",
        Says::status(404).with("cache-control", "max-age=60"),
    );
    for name in ["x", "y", "z"] {
        let found = rig.found(&format!("{name}.b.example")).await;
        assert_eq!(found.record.pattern.as_str(), "*.b.example");
        assert!(rig.absent(&format!("{name}.example")).await);
    }
    assert_eq!(rig.times("_.b.example"), 1);
    assert_eq!(rig.times("_.example"), 1);
    // An absence of a name is for the cache of names to remember.
    rig.says(
        "x.example",
        Says::status(404).with("cache-control", "max-age=60"),
    );
    assert!(rig.absent("x.example").await && rig.absent("x.example").await);
    assert_eq!(rig.times("x.example"), 3);
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again() {
    for http2 in [false, true] {
        let rig = Rig::new(http2);
        rig.put_with("a.example", |answer| answer.with("etag", "\"one\""));
        let first = rig.found("a.example").await;
        let again = rig.found("a.example").await;
        assert_eq!(first.record, again.record);
        assert_eq!(first.credentials[0].chain, again.credentials[0].chain);
        assert_eq!(first.credentials[0].version, again.credentials[0].version);
        let [key, same] = [&first, &again].map(|found| found.credentials[0].key.secret());
        assert_eq!(key, same);
        assert_eq!(conditions(&rig), [None, Some("\"one\"".into())]);

        // Another tag brings another answer, and none is sent without one.
        rig.put_with("a.example", |answer| answer.with("etag", "W/\"two\""));
        let renewed = rig.found("a.example").await;
        assert_ne!(first.record.version, renewed.record.version);
        rig.put("a.example");
        rig.found("a.example").await;
        rig.found("a.example").await;
        let last = conditions(&rig).split_off(3);
        assert_eq!(last, [Some("W/\"two\"".into()), None]);
    }
}

#[tokio::test]
async fn an_unchanged_answer_holds_on_for_its_time() {
    let rig = Rig::new(true);
    let cached = |answer: Says| {
        answer
            .with("etag", "\"one\"")
            .with("cache-control", "no-cache")
    };
    rig.put_with("a.example", cached);
    rig.found("a.example").await;
    let again = rig.found("a.example").await;
    assert_eq!(again.fresh_for, Some(Duration::ZERO));
    assert_eq!(conditions(&rig).len(), 2);
}

#[tokio::test]
async fn what_must_not_be_stored_is_not() {
    let rig = Rig::new(true);
    rig.put_with("a.example", |answer| {
        answer
            .with("etag", "\"one\"")
            .with("cache-control", "no-store")
    });
    rig.found("a.example").await;
    rig.found("a.example").await;
    assert_eq!(conditions(&rig), [None, None]);
}

#[tokio::test]
async fn what_is_gone_is_not_remembered() {
    let rig = Rig::new(true);
    let pair = rig.put_with("a.example", |answer| answer.with("etag", "\"one\""));
    rig.found("a.example").await;
    for other in [Says::status(410), Says::ok("nonsense")] {
        rig.says("a.example", other.with("etag", "\"two\""));
        let answer = rig.find("a.example").await;
        assert!(
            !matches!(answer, Ok(sekisho_certs::Answer { found: Some(_), .. })),
            "{answer:?}"
        );
        rig.says(
            "a.example",
            Says::ok(super::rig::bundle(&pair)).with("etag", "\"one\""),
        );
        rig.found("a.example").await;
        assert_eq!(conditions(&rig).pop().unwrap(), None);
    }
}

/// The conditions of all requests for `a.example`.
fn conditions(rig: &Rig) -> Vec<Option<String>> {
    let asked = rig.endpoint.asked().into_iter();
    asked
        .filter(|asked| asked.target == "/a.example")
        .map(|asked| {
            let tag = asked.fields.get("if-none-match")?;
            Some(tag.to_str().unwrap().to_owned())
        })
        .collect()
}
