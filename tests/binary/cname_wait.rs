//! Tests `cert issue --wait-for-cname`: certificates before DNS moves.

use crate::sandbox::{SOON, Sandbox, until};
use crate::zone::AtZone;

#[test]
fn a_lineage_waits_for_its_cname_and_is_issued() {
    let Some(at) = AtZone::start() else { return };
    let target = at.wait(&["shop.test"], "anna");
    let server = at.sandbox().serve();
    let waits = format!(
        "_acme-challenge.shop.test leads nowhere; set _acme-challenge.shop.test CNAME {target}"
    );
    until("the wait is told", SOON, || {
        let (_, error) = at.state("shop.test");
        error.starts_with("waits until ") && error.ends_with(&waits)
    });
    assert_eq!(
        at.fixture.pebble.log().matches("orders in the db").count(),
        0
    );
    let failing = server.metric("sekisho_acme_attempts_total{outcome=\"failed_host\"}");
    assert_eq!(failing, Some(0.0));
    at.set_cname("shop.test", &target);
    // Servers look every five minutes; the command lets them look at once, and has the same
    // record again.
    assert_eq!(at.wait(&["shop.test"], "anna"), target);
    until("the certificate", SOON, || {
        at.state("shop.test").0 == "scheduled"
    });
    // The address of the name leads elsewhere.
    at.sandbox().page("shop.test", "page of shop.test");
    at.fixture.assert_served(&server, "shop.test");
    server.stop();
}

#[test]
fn another_tenants_cname_gives_nothing() {
    let Some(at) = AtZone::start() else { return };
    let annas = at.wait(&["*.shop.test"], "anna");
    // The domain has changed hands, and its record was left behind. No server has looked at
    // the lineage since.
    at.sandbox().ok(&["host", "remove", "*.shop.test"]);
    at.set_cname("shop.test", &annas);
    let berts = at.wait(&["*.shop.test"], "bert");
    assert_ne!(berts, annas);
    let server = at.sandbox().serve();
    let error = format!("leads to {annas}; set _acme-challenge.shop.test CNAME {berts}");
    until("the wait is told", SOON, || {
        at.state("*.shop.test").1.ends_with(&error)
    });
    let issue = ["cert", "issue", "*.shop.test"];
    let failed = at.sandbox().fails(&issue);
    assert!(failed.contains(&error), "{failed}");
    at.set_cname("shop.test", &berts);
    // The resolver keeps the record for the rest of the second.
    until("the certificate", SOON, || {
        at.sandbox().run(&issue).code == Some(0)
    });
    server.stop();
}

#[test]
fn a_renewal_asks_for_the_next_tenants_cname() {
    let Some(at) = AtZone::start() else { return };
    let annas = at.wait(&["*.shop.test"], "anna");
    at.set_cname("shop.test", &annas);
    let server = at.sandbox().serve();
    until("the certificate", SOON, || {
        at.state("*.shop.test").0 == "scheduled"
    });
    // The certificate is still referred to.
    let set = ["host", "set", "*.shop.test", "--tenant", "bert"];
    at.sandbox().ok(&set);
    let renew = ["cert", "renew", "*.shop.test"];
    let orders = at.fixture.pebble.orders();
    let failed = at.sandbox().fails(&renew);
    let error = format!("leads to {annas}; set _acme-challenge.shop.test CNAME ");
    assert!(failed.contains(&error), "{failed}");
    assert_eq!(at.fixture.pebble.orders(), orders);
    let berts = at.wait(&["*.shop.test"], "bert");
    assert_ne!(berts, annas);
    assert!(failed.contains(&berts), "{failed}");
    at.set_cname("shop.test", &berts);
    until("the next certificate", SOON, || {
        at.sandbox().run(&renew).code == Some(0)
    });
    server.stop();
}

/// Customers have set the records: a move to another store must not ask them again.
#[test]
fn a_copy_of_the_store_has_the_same_records() {
    let sandbox = Sandbox::new();
    let zone = "[acme.dns.\"dcv.example.net\"]\nserve = [\"127.0.0.1:53\"]\n";
    let acme = "[acme]\ncas = [\"letsencrypt\"]\nagree = true\n";
    sandbox.configure(&format!("{acme}{zone}"));
    let issue = ["cert", "issue", "*.a.example", "--wait-for-cname", "7d"];
    let told = sandbox.ok(&issue);
    assert!(
        told.starts_with("set _acme-challenge.a.example CNAME a.example."),
        "{told}"
    );
    sandbox.ok(&["store", "copy", "sqlite:hosts.db", "sqlite:copy.db"]);
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("copy.toml", &config.replace("hosts.db", "copy.db"));
    let again = sandbox.ok(&[&issue[..], &["--config", "copy.toml"]].concat());
    assert_eq!(again, told);
}

#[test]
fn without_a_zone_the_command_says_what_to_configure() {
    let sandbox = Sandbox::new();
    sandbox.configure("[acme]\ncas = [\"letsencrypt\"]\nagree = true\n");
    let issue = ["cert", "issue", "a.example", "--wait-for-cname", "7d"];
    let error = sandbox.fails(&issue);
    assert!(error.contains("serve = [\"0.0.0.0:53\"]"), "{error}");
    for time in ["59m", "91d", "soon"] {
        let ran = sandbox.run(&["cert", "issue", "a.example", "--wait-for-cname", time]);
        assert_eq!(ran.code, Some(2), "{time}: {}", ran.err);
    }
    assert!(!sandbox.path("hosts.db").exists(), "nothing was made");
}
