//! Tests a hand-over while a certificate is ordered.

use std::sync::{Mutex, mpsc};
use std::thread;

use rustix::process::Signal;

use crate::first_access::Fixture;
use crate::sandbox::{SOON, until};

#[test]
fn an_order_under_way_is_finished_and_made_once() {
    let mut fixture = Fixture::start("sqlite:hosts.db");
    let (reached, under_way) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    let (reached, wait) = (Mutex::new(reached), Mutex::new(wait));
    let proxy = fixture.pebble.proxy(move |path, status| {
        if path.starts_with("/finalize-order/") && status.is_none() {
            let reached = reached.lock().expect("nothing panics");
            reached.send(()).expect("the test goes on");
            let wait = wait.lock().expect("nothing panics");
            wait.recv().expect("the test goes on");
        }
        true
    });
    fixture.directory = format!("https://127.0.0.1:{}/dir", proxy.port());
    fixture.configure(&fixture.acme(""));
    fixture.host("a.example");
    let server = fixture.sandbox.serve();
    let starts = || server.log().matches(r#""message":"serving""#).count();
    thread::scope(|scope| {
        let visit = scope.spawn(|| fixture.visit(&server, "a.example"));
        under_way.recv_timeout(SOON).expect("an order");
        server.signal(Signal::HUP);
        until("the hand-over", SOON, || starts() == 2);
        go_on.send(()).expect("the CA waits");
        let answer = visit.join().expect("it does not panic");
        let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
        assert!(answer.contains("page of a.example"), "{answer}");
    });
    until("the first process is done", SOON, || {
        server.log().contains("ended after the hand-over")
    });
    fixture.assert_served(&server, "a.example");
    let orders = fixture.pebble.orders();
    assert_eq!(orders, 1, "{}", server.log());
    server.stop();
}
