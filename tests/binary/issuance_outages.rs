//! Tests bad days of issuance: the CA is down, the ask URL is down, and keys that take
//! long are made while changes arrive.

use std::time::{Duration, Instant};

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, HostPattern, Lineage, Tenant};
use sekisho_testkit::{Answer, Cut, Endpoint, Proxy, Speaks};
use tokio::runtime::Runtime;

use crate::acme::sealer;
use crate::first_access::Fixture;
use crate::outages::clock::{Clocks, with_its_own_clock};
use crate::sandbox::{SOON, Sandbox, Server, until};

#[test]
fn a_ca_that_is_down_for_an_hour_costs_new_hosts_that_hour() {
    let mut fixture = Fixture::start("sqlite:hosts.db");
    let (rest, path) = fixture.directory.rsplit_once('/').expect("a URL");
    let (rest, port) = rest.rsplit_once(':').expect("a port");
    let proxy = Proxy::before(port.parse().expect("a port"));
    fixture.directory = format!("{rest}:{}/{path}", proxy.port());
    fixture.configure(&fixture.acme(""));
    for name in ["a.example", "b.example", "c.example"] {
        fixture.host(name);
    }
    let server = with_its_own_clock(&fixture.sandbox, Clocks::All);
    fixture.assert_served(&server, "a.example");

    proxy.cut(Cut::Reset);
    assert_fails(&fixture, &server, "b.example");
    pass(&fixture.sandbox, 3600);
    // The next attempt of the one fails, and the other is visited first now.
    assert_fails(&fixture, &server, "b.example");
    assert_fails(&fixture, &server, "c.example");
    fixture.assert_served(&server, "a.example");
    let failing = fixture.sandbox.ok(&["cert", "list", "--failing"]);
    assert!(failing.contains("b.example\tfailing"), "{failing}");

    proxy.open();
    // Without a visit: a single order tries the CA, and the other one comes seconds later.
    // A second jump could meet its order under way, and would end all waits of it.
    pass(&fixture.sandbox, 2 * 3600);
    let issued = "sekisho_acme_attempts_total{outcome=\"issued\"}";
    until("both certificates", PATIENCE, || {
        server.metric(issued) >= Some(3.0)
    });
    for name in ["a.example", "b.example", "c.example"] {
        until(name, SOON, || fixture.visit(&server, name).is_ok());
    }
    server.stop();
}

#[test]
fn an_ask_url_that_is_down_is_no_reason_to_issue_and_is_asked_once() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.otherwise(Answer::status(500));
    let ask = endpoint.address;
    let keys = format!("first_access = \"ask\"\nask = \"http://{ask}/check\"");
    fixture.configure(&fixture.acme(&keys));
    fixture.host("a.example");
    fixture.sandbox.page("new.example", "page of new.example");
    let server = with_its_own_clock(&fixture.sandbox, Clocks::All);
    for _ in 0..3 {
        assert_fails(&fixture, &server, "a.example");
        assert_fails(&fixture, &server, "new.example");
    }
    assert_eq!(endpoint.asked().len(), 2, "the failures are remembered");

    // Not even a connection.
    drop(endpoint);
    pass(&fixture.sandbox, 3600);
    assert_fails(&fixture, &server, "new.example");
    assert!(
        !fixture.pebble.log().contains("example"),
        "nothing is ordered"
    );

    let endpoint = Endpoint::start_at(ask, Speaks::Plain);
    endpoint.otherwise(Answer::ok(""));
    pass(&fixture.sandbox, 2 * 3600);
    for name in ["a.example", "new.example"] {
        fixture.assert_served(&server, name);
    }
    server.stop();
}

#[test]
fn changes_arrive_while_long_keys_are_made() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    fixture.configure(&fixture.acme("first_access = \"off\"\nkey = \"rsa4096\""));
    let names: Vec<_> = (0..8)
        .map(|number| format!("rsa{number}.example"))
        .collect();
    for name in &names {
        sandbox.ok(&["host", "set", name]);
    }
    let server = sandbox.serve();
    order(sandbox, &names);
    let in_flight = || server.metric("sekisho_acme_orders_in_flight") > Some(0.0);
    until("orders are in flight", SOON, in_flight);
    let mut slowest = Duration::ZERO;
    for number in 0.. {
        let name = format!("new{number}.example");
        sandbox.page(&name, &name);
        assert!(server.refusal(&name).contains("UnrecognisedName"));
        sandbox.import(&[&name]);
        let begun = Instant::now();
        until("the change is served", LATE, || server.shows(&name, &name));
        if !in_flight() {
            assert!(number > 0, "the keys were made before any change arrived");
            break;
        }
        slowest = slowest.max(begun.elapsed());
    }
    println!("a change took {slowest:?} at most");
    for name in &names {
        let shown = sandbox.json(&["cert", "show", name, "--json"]);
        assert_eq!(shown[0]["type"], "rsa", "{shown}");
    }
    server.stop();
}

/// Makes lineages that are due.
fn order(sandbox: &Sandbox, names: &[String]) {
    let put = |name: &String| {
        let pattern = HostPattern::parse(name).expect("a name");
        let mut lineage = Lineage::new(Tenant::default(), [pattern]).expect("one name");
        lineage.due = Some(Clock::System.now());
        Write::PutLineage(lineage, Fence::Absent)
    };
    let writes = names.iter().map(put).collect();
    Runtime::new().expect("a runtime").block_on(async {
        let written = sealer(sandbox).await.write(writes).await;
        written.expect("it is written");
    });
}

fn assert_fails(fixture: &Fixture, server: &Server, name: &str) {
    let refused = fixture
        .visit(server, name)
        .expect_err("it has no certificate");
    assert!(refused.to_string().contains("InternalError"), "{refused}");
}

/// Lets time pass for the server, in all since its start.
fn pass(sandbox: &Sandbox, seconds: u64) {
    sandbox.write("ahead", &seconds.to_string());
}

/// Far more than the next attempts take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bound of a change on a machine with other work. A runtime that makes keys itself
/// would take seconds for each.
const LATE: Duration = Duration::from_secs(2);
