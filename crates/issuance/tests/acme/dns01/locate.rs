//! Where records go.

use sekisho_dns::Resolver;
use sekisho_issuance::acme::Blame;
use sekisho_issuance::solver::dns01::{Dns01, Fault, Waits};
use sekisho_testkit::services::{Knot, Zone};
use tokio::net::UdpSocket;

use super::{LOCALHOST, SECRET, SHORT, knot, pattern, rfc2136, settings, solver, texts};

#[tokio::test]
async fn the_record_goes_where_cnames_lead() {
    let host = Zone {
        name: "example.test",
        records: "@ NS ns\nns A 127.0.0.1\n_acme-challenge.a CNAME alias\n\
                  alias CNAME A.Acme.Other.test.",
        key: "none",
    };
    let other = Zone {
        name: "acme.other.test",
        records: "@ NS ns\nns A 127.0.0.1",
        key: "acme",
    };
    let keys = [
        ("hmac-sha256", "acme", SECRET),
        ("hmac-sha256", "none", SECRET),
    ];
    let knot = Knot::start(LOCALHOST, &keys, &[host, other]);
    let solver = solver(&knot);
    let record = solver
        .locate(&pattern("*.a.example.test"), "x")
        .await
        .unwrap();
    assert_eq!(record.fqdn, "a.acme.other.test.");
    assert_eq!(record.zone, "acme.other.test.");
    solver.present(&record).await.unwrap();
    assert_eq!(texts(&knot, "_acme-challenge.a.example.test").await, ["x"]);
    solver.clean_up(&record).await.unwrap();
    assert!(texts(&knot, "a.acme.other.test").await.is_empty());
}

#[tokio::test]
async fn names_without_a_place_are_the_hosts_fault() {
    let registry = Zone {
        name: "com",
        records: "@ NS ns\nns A 127.0.0.1\n_acme-challenge.loop.a CNAME back\n\
                  back CNAME _acme-challenge.loop.a\n_acme-challenge.odd.a CNAME a\\;b.com.",
        key: "acme",
    };
    let knot = Knot::start(LOCALHOST, &[("hmac-sha256", "acme", SECRET)], &[registry]);
    let solver = solver(&knot);
    for (name, expected) in [
        ("www.unregistered.com", "(NXDOMAIN)"),
        ("loop.a.com", "over 8 CNAMEs"),
        ("odd.a.com", "is a CNAME for a\\;b.com."),
    ] {
        let error = solver.locate(&pattern(name), "x").await.unwrap_err();
        assert!(matches!(error.fault, Fault::Name(_)), "{error}");
        assert_eq!(error.blame(), Blame::Host);
        let text = error.to_string();
        assert!(text.starts_with(name) && text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_resolver_that_fails_is_not_the_hosts_fault() {
    let knot = knot("");
    // Knot refuses what is not in its zones.
    let error = solver(&knot).locate(&pattern("a.example.org"), "x").await;
    let error = error.unwrap_err();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{error}");
    assert_eq!(error.blame(), Blame::Operator);
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let key = format!("acme:{SECRET}");
    let mut settings = settings(&knot, rfc2136(knot.address(), &key));
    settings.resolver = Resolver::new(&[silent.local_addr().unwrap()]);
    settings.deadline = SHORT;
    let solver = Dns01::new(settings, Waits::default());
    let error = solver.locate(&pattern("a.example.test"), "x").await;
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "a.example.test: the resolvers: not done within 0.1 s");
}
