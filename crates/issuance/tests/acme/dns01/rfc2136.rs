//! Dynamic updates with TSIG.

use sekisho_issuance::acme::Blame;
use sekisho_issuance::solver::dns01::{Dns01, Fault, Presented, Waits};
use sekisho_testkit::services::{Knot, Zone};
use tokio::net::UdpSocket;

use super::{LOCALHOST, SECRET, SHORT, knot, pattern, presented, rfc2136, settings, solver, texts};

#[tokio::test]
async fn values_of_a_wildcard_and_its_parent_are_side_by_side() {
    let knot = knot("");
    let solver = solver(&knot);
    let one = solver.locate(&pattern("*.a.example.test"), "one").await;
    let two = solver.locate(&pattern("a.example.test"), "two").await;
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((&one, &two), (&presented("one"), &presented("two")));
    for record in [&one, &two, &two] {
        solver.present(record).await.unwrap();
    }
    assert_eq!(texts(&knot, &one.fqdn).await, ["one", "two"]);
    solver.clean_up(&one).await.unwrap();
    assert_eq!(texts(&knot, &one.fqdn).await, ["two"]);
    for record in [&one, &two, &two] {
        solver.clean_up(record).await.unwrap();
    }
    assert!(texts(&knot, &one.fqdn).await.is_empty());
}

#[tokio::test]
async fn answers_that_do_not_fit_a_datagram_come_over_tcp() {
    let record = |number| format!("_acme-challenge.a TXT {number:043}\n");
    let knot = knot(&(0..60).map(record).collect::<String>());
    solver(&knot).present(&presented("x")).await.unwrap();
    assert_eq!(texts(&knot, &presented("x").fqdn).await.len(), 61);
}

#[tokio::test]
async fn another_process_removes_a_record_after_a_crash() {
    let knot = knot("");
    let stored = {
        let solver = solver(&knot);
        let record = solver
            .locate(&pattern("a.example.test"), "x")
            .await
            .unwrap();
        let stored = serde_json::to_string(&record).unwrap();
        solver.present(&record).await.unwrap();
        stored
    };
    let record: Presented = serde_json::from_str(&stored).unwrap();
    assert_eq!(texts(&knot, &record.fqdn).await, ["x"]);
    solver(&knot).clean_up(&record).await.unwrap();
    assert!(texts(&knot, &record.fqdn).await.is_empty());
}

#[tokio::test]
async fn all_algorithms_are_understood() {
    let algorithms = ["hmac-sha256", "hmac-sha384", "hmac-sha512"];
    let keys = algorithms.map(|algorithm| (algorithm, algorithm, SECRET));
    let names = ["a.test", "b.test", "c.test"];
    let zones = [0, 1, 2].map(|number| Zone {
        name: names[number],
        records: "@ NS ns\nns A 127.0.0.1",
        key: algorithms[number],
    });
    let knot = Knot::start(LOCALHOST, &keys, &zones);
    for (algorithm, name) in algorithms.into_iter().zip(names) {
        let key = format!("{algorithm}:{algorithm}:{SECRET}");
        let solver = Dns01::new(
            settings(&knot, rfc2136(knot.address(), &key)),
            Waits::default(),
        );
        let record = solver.locate(&pattern(name), "x").await.unwrap();
        solver.present(&record).await.unwrap();
        assert_eq!(texts(&knot, &record.fqdn).await, ["x"], "{algorithm}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_an_error_that_names_zone_and_key() {
    let knot = knot("");
    for (key, expected) in [
        (
            "acme:d3Jvbmc=".to_owned(),
            "zone example.test., key acme.: the secret",
        ),
        (
            format!("hmac-sha512:acme:{SECRET}"),
            "zone example.test., key acme.: ",
        ),
        (
            format!("other:{SECRET}"),
            "zone example.test., key other.: the server knows no",
        ),
    ] {
        let solver = Dns01::new(
            settings(&knot, rfc2136(knot.address(), &key)),
            Waits::default(),
        );
        for error in [
            solver.present(&presented("x")).await.unwrap_err(),
            solver.clean_up(&presented("x")).await.unwrap_err(),
        ] {
            assert!(matches!(error.fault, Fault::Refused(_)), "{error}");
            assert_eq!(error.blame(), Blame::Operator);
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains(SECRET), "{text}");
            assert!(text.starts_with("_acme-challenge.a.example.test.: rfc2136 127.0.0.1:"));
        }
    }
}

#[tokio::test]
async fn a_key_changes_only_its_zones() {
    let keys = [
        ("hmac-sha256", "acme", SECRET),
        ("hmac-sha256", "other", SECRET),
    ];
    let zone = Zone {
        name: "example.test",
        records: "@ NS ns\nns A 127.0.0.1",
        key: "other",
    };
    let knot = Knot::start(LOCALHOST, &keys, &[zone]);
    let solver = solver(&knot);
    let error = solver.present(&presented("x")).await.unwrap_err();
    assert!(
        matches!(&error.fault, Fault::Refused(why) if why.contains("key acme.")),
        "{error}"
    );
    let mut elsewhere = presented("x");
    elsewhere.zone = "b.test.".into();
    elsewhere.fqdn = "_acme-challenge.b.test.".into();
    let error = solver.present(&elsewhere).await.unwrap_err();
    assert!(
        error.to_string().contains("zone b.test., key acme.: "),
        "{error}"
    );
    assert!(texts(&knot, &presented("x").fqdn).await.is_empty());
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let knot = knot("");
    let mut settings = settings(&knot, rfc2136(address, &format!("acme:{SECRET}")));
    settings.deadline = SHORT;
    let solver = Dns01::new(settings, Waits::default());
    let error = solver.present(&presented("x")).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{error}");
    let expected = format!("rfc2136 {address}: not done within 0.1 s");
    assert!(error.to_string().ends_with(&expected), "{error}");
}

/// A forger who answers faster than the server must not be believed.
#[tokio::test]
async fn an_answer_without_a_signature_is_refused() {
    let forger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let knot = knot("");
    let key = format!("acme:{SECRET}");
    let solver = Dns01::new(
        settings(&knot, rfc2136(forger.local_addr().unwrap(), &key)),
        Waits::default(),
    );
    let forge = async {
        let mut buffer = [0; 1500];
        let (_, client) = forger.recv_from(&mut buffer).await.unwrap();
        // The header alone: an answer to an update, no error, no records.
        let answer = [buffer[0], buffer[1], 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        forger.send_to(&answer, client).await.unwrap();
    };
    let record = presented("x");
    let (cleaned, ()) = tokio::join!(solver.clean_up(&record), forge);
    let error = cleaned.unwrap_err();
    assert!(
        matches!(&error.fault, Fault::Refused(why) if why.contains("not signed")),
        "{error}"
    );
}
