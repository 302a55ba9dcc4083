//! Fail-over among CAs.

use std::sync::Arc;
use std::time::Duration;

use sekisho_issuance::acme::{Blame, CaSettings, Error, Fault, Meta, Problem};
use sekisho_issuance::authorities::{Authorities, Authority, NoAuthority};
use sekisho_issuance::settings::CaOptions;
use sekisho_testkit::Answer;
use tokio::time::advance;

use crate::scripted::Scripted;

/// Two CAs that nobody asks: time may be paused.
fn two() -> Authorities {
    let named = |name: &str| CaOptions::new(settings(name, &format!("https://{name}.invalid/dir")));
    Authorities::new(vec![named("one"), named("two")]).unwrap()
}

fn settings(name: &str, directory: &str) -> CaSettings {
    CaSettings {
        name: name.into(),
        directory: directory.into(),
        root: None,
        deadline: CaSettings::DEADLINE,
    }
}

fn error(fault: Fault) -> Error {
    Error {
        ca: "one".into(),
        step: "ordering secret.example".into(),
        fault,
    }
}

fn refused(status: u16, kind: &str, retry_after: Option<u64>) -> Error {
    let problem = Problem {
        kind: kind.into(),
        ..Problem::default()
    };
    error(Fault::Refused {
        status,
        problem: (!kind.is_empty()).then(|| Box::new(problem)),
        retry_after: retry_after.map(Duration::from_secs),
    })
}

fn candidates(of: &Authorities) -> Vec<Arc<Authority>> {
    of.candidates(None, |_| true).unwrap()
}

/// Begins an order at each CA that is worth asking.
fn named(of: &Authorities) -> Vec<String> {
    let found = candidates(of);
    let begun = found.iter().filter(|one| of.begin(one).is_ok());
    begun.map(|one| one.ca.name().to_owned()).collect()
}

/// Returns the time until the first CA is asked again, and tries it then.
async fn paused(of: &Authorities) -> u64 {
    for second in 0..100_000 {
        if named(of)[0] == "one" {
            return second;
        }
        advance(Duration::from_secs(1)).await;
    }
    panic!("it is never asked again");
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_fails_is_passed_over_ever_longer() {
    let cas = two();
    assert_eq!(named(&cas), ["one", "two"]);
    let one = Arc::clone(&cas.all()[0]);
    for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
        assert!(cas.failed(&one, &refused(503, "", None)));
        assert_eq!(named(&cas), ["two"]);
        let pause = paused(&cas).await;
        assert!((seconds..=seconds * 5 / 4 + 1).contains(&pause), "{pause}");
        // A single order tries it; the others don't wait for its outcome.
        assert_eq!(named(&cas), ["two"]);
    }
    cas.succeeded(&one);
    assert_eq!(named(&cas), ["one", "two"]);
    cas.failed(&one, &refused(500, "serverInternal", None));
    assert!(paused(&cas).await <= 13);
    // The try came to nothing: another one follows.
    assert_eq!(paused(&cas).await, 30);
}

#[tokio::test(start_paused = true)]
async fn a_ca_of_short_lifetimes_is_passed_over_for_a_share_of_them() {
    let cas = two();
    let one = Arc::clone(&cas.all()[0]);
    assert_eq!(named(&cas).len(), 2);
    for (lifetime, longest) in [(u64::MAX, 600), (300, 10), (24 * 3600, 10), (60, 5)] {
        one.renews(Duration::from_secs(lifetime));
        for _ in 0..8 {
            assert!(cas.failed(&one, &refused(503, "", None)));
            paused(&cas).await;
        }
        assert!(cas.failed(&one, &refused(503, "", None)));
        assert_eq!(cas.opens_in(None), None, "the other CA works");
        let opens = cas.opens_in(Some("one")).unwrap().as_secs();
        assert!((longest..=longest * 5 / 4).contains(&opens), "{opens}");
        paused(&cas).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_no_order_came_to_stays_worth_asking() {
    let cas = two();
    let two = Arc::clone(&cas.all()[1]);
    cas.failed(&two, &refused(503, "", None));
    advance(Duration::from_secs(60)).await;
    // Orders that the first CA fulfils.
    for _ in 0..9 {
        assert_eq!(candidates(&cas).len(), 2);
    }
    assert_eq!(cas.begin(&two), Ok(()));
    // While one order tries it, others pass it over, also those that listed it before.
    assert_eq!(candidates(&cas).len(), 1);
    let passed_over = cas.begin(&two).unwrap_err().to_string();
    // Its outcome is soon known.
    assert!(passed_over.contains("again in 5 s"), "{passed_over}");
    cas.succeeded(&two);
    assert_eq!(cas.begin(&two), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_outage_count_once() {
    let cas = two();
    let one = Arc::clone(&cas.all()[0]);
    for _ in 0..64 {
        cas.failed(&one, &error(Fault::Unreachable("no route".into())));
    }
    assert!(paused(&cas).await <= 13);
}

#[tokio::test(start_paused = true)]
async fn the_ca_says_when_to_come_back() {
    let cas = two();
    let one = Arc::clone(&cas.all()[0]);
    assert!(cas.failed(&one, &refused(429, "rateLimited", Some(3600))));
    assert_eq!(paused(&cas).await, 3600);
    let month = 30 * 24 * 60 * 60;
    assert!(cas.failed(&one, &refused(503, "", Some(month))));
    assert_eq!(paused(&cas).await, 24 * 60 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_busy_ca_pauses_one_order_and_is_passed_over_once_two_meet_it() {
    let cas = two();
    let one = Arc::clone(&cas.all()[0]);
    let busy = refused(503, "", Some(2));
    for _ in 0..3 {
        assert!(!cas.failed_in(&one, &busy, "a.example"));
    }
    // An order that comes through, or a minute, tells that it was no outage.
    cas.succeeded(&one);
    assert!(!cas.failed_in(&one, &busy, "b.example"));
    advance(Duration::from_secs(60)).await;
    assert!(!cas.failed_in(&one, &busy, "a.example"));
    assert_eq!(named(&cas), ["one", "two"]);
    assert!(cas.failed_in(&one, &busy, "b.example"));
    assert_eq!(named(&cas), ["two"]);
    // Without a time to come back, it is one at once.
    let cas = two();
    assert!(cas.failed_in(&cas.all()[0], &refused(503, "", None), "a.example"));
}

#[tokio::test]
async fn all_who_wait_for_a_directory_share_one_request() {
    let ca = Scripted::with_deadline(Duration::from_millis(500));
    ca.put("dir", Answer::status(200).after(Duration::from_secs(60)));
    let metas = (0..50).map(|_| ca.ca.meta());
    for meta in futures_util::future::join_all(metas).await {
        let error = meta.unwrap_err().to_string();
        assert!(error.ends_with("did not answer within 0.5 s"), "{error}");
    }
    assert_eq!(ca.endpoint.times("/dir"), 1);
    // A caller that goes away leaves the request to the others, and a failure is not
    // kept.
    let gone = tokio::time::timeout(Duration::from_millis(50), ca.ca.meta());
    let (gone, other) = tokio::join!(gone, ca.ca.meta());
    assert!(gone.is_err() && other.is_err());
    assert_eq!(ca.endpoint.times("/dir"), 2);
}

#[tokio::test(start_paused = true)]
async fn one_order_shuts_no_ca_off() {
    let cas = two();
    let one = Arc::clone(&cas.all()[0]);
    let problem = |kind: &str| Problem {
        kind: kind.into(),
        ..Problem::default()
    };
    for (error, blame) in [
        (refused(400, "badCSR", None), Blame::Ca),
        (refused(400, "rejectedIdentifier", None), Blame::Host),
        (refused(404, "", None), Blame::Ca),
        (error(Fault::Pending(Duration::from_secs(9))), Blame::Ca),
        (error(Fault::Names("a.example".into())), Blame::Ca),
        (
            error(Fault::Invalid(Box::new(problem("serverInternal")))),
            Blame::Ca,
        ),
        (
            error(Fault::Invalid(Box::new(problem("unauthorized")))),
            Blame::Host,
        ),
    ] {
        assert_eq!(error.blame(), blame, "{error}");
        assert!(!cas.failed(&one, &error), "{error}");
        assert_eq!(named(&cas), ["one", "two"]);
    }
    // All orders need the account.
    for error in [
        refused(403, "unauthorized", None),
        refused(400, "accountDoesNotExist", None),
        error(Fault::Setting {
            key: "eab_key",
            why: "no".into(),
        }),
        error(Fault::Untrusted("no".into())),
    ] {
        let fresh = two();
        let one = Arc::clone(&fresh.all()[0]);
        assert!(fresh.failed(&one, &error), "{error}");
        assert_eq!(named(&fresh), ["two"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_to_ask_says_until_when_and_why() {
    let cas = two();
    let [one, two] = [0, 1].map(|index| Arc::clone(&cas.all()[index]));
    cas.failed(&one, &refused(429, "rateLimited", Some(90)));
    cas.failed(&two, &refused(503, "", Some(60)));
    let none = cas.candidates(None, |_| true).unwrap_err();
    let two_fails = "two (again in 60 s): it answered 503 without a problem document";
    let expected =
        format!("no CA is worth asking now: one (again in 90 s): rateLimited; {two_fails}");
    assert_eq!(none.to_string(), expected);
    let NoAuthority::PassedOver { retry_after, .. } = none else {
        panic!("{none}");
    };
    assert_eq!(retry_after, Duration::from_secs(60));
    let none = cas.candidates(Some("two"), |_| true).unwrap_err();
    assert_eq!(
        none.to_string(),
        format!("no CA is worth asking now: {two_fails}")
    );
}

#[tokio::test]
async fn a_wish_is_kept() {
    let cas = two();
    let wished = cas.candidates(Some("two"), |_| true).unwrap();
    assert_eq!(wished.len(), 1);
    assert_eq!(wished[0].ca.name(), "two");
    let unknown = cas.candidates(Some("three"), |_| true).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "the CA \"three\" is not configured; there is one, two"
    );
    let found = cas.by_directory("https://two.invalid/dir").unwrap();
    assert_eq!(found.ca.name(), "two");
    assert!(cas.by_directory("https://two.invalid").is_none());
}

#[tokio::test]
async fn a_directory_tells_who_may_issue() {
    let (one, two) = (Scripted::start(), Scripted::start());
    for (ca, identity) in [(&one, "one.example"), (&two, "two.example")] {
        let urls = ["newNonce", "newAccount", "newOrder"];
        let urls = urls.map(|name| format!(r#""{name}": "{}""#, ca.url(name)));
        let meta = format!(r#""meta": {{"caaIdentities": ["{identity}"]}}"#);
        let directory = Answer::ok(format!("{{{}, {meta}}}", urls.join(",")));
        ca.put("dir", directory);
    }
    let settings = |ca: &Scripted, name: &str| CaSettings {
        name: name.into(),
        ..ca.settings.clone()
    };
    let options =
        [(&one, "one"), (&two, "two")].map(|(ca, name)| CaOptions::new(settings(ca, name)));
    let cas = Authorities::new(options.to_vec()).unwrap();
    let permits = |meta: &Meta| meta.caa_identities == ["two.example"];
    // Nothing is known yet: the CAs check themselves.
    assert_eq!(cas.candidates(None, permits).unwrap().len(), 2);
    let metas = cas.metas().await;
    assert_eq!(metas.len(), 2);
    assert!(permits(&metas[1]) && !permits(&metas[0]));
    let permitted = cas.candidates(None, permits).unwrap();
    assert_eq!((permitted.len(), permitted[0].ca.name()), (1, "two"));
    let none = cas.candidates(Some("one"), permits).unwrap_err();
    assert_eq!(
        none.to_string(),
        "the CAA records allow no certificate from one"
    );
    // The metadata of a CA that fails stays known, and nobody asks it.
    cas.failed(&cas.all()[1], &refused(503, "", None));
    assert_eq!(cas.metas().await, metas);
}

#[tokio::test]
async fn a_ca_without_a_directory_leaves_the_others() {
    let (good, bad) = (Scripted::start(), Scripted::start());
    bad.put("dir", Answer::status(503));
    let bad_settings = CaSettings {
        name: "bad".into(),
        ..bad.settings.clone()
    };
    let options = [bad_settings, good.settings.clone()].map(CaOptions::new);
    let cas = Authorities::new(options.to_vec()).unwrap();
    // A CAA record may allow the one that is not known.
    assert!(cas.metas().await.is_empty());
    assert_eq!(named(&cas), ["scripted"]);
    assert!(cas.metas().await.is_empty());
    assert_eq!(bad.endpoint.asked().len(), 1);
}

#[test]
fn settings_that_can_not_be_used_are_named() {
    let refused = |options| Authorities::new(options).unwrap_err().to_string();
    assert_eq!(refused(vec![]), "cas: name at least one CA");
    let ca = |name: &str, url: &str| CaOptions::new(settings(name, url));
    let same = vec![ca("a", "https://a.example"), ca("b", "https://a.example")];
    assert_eq!(refused(same), r#"cas: "a" and "b" are the same CA"#);
    let wrong = vec![ca("a", "http://a.example")];
    assert_eq!(
        refused(wrong),
        r#"ca.a.directory: "http://a.example" is no https:// URL"#
    );
}
