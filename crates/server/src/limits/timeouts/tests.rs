use std::sync::Arc;
use std::task::Wake;

use super::*;
use crate::limits::settings::{CertificateWaits, Limits};

const LIMITS: Limits = Limits {
    workers: 1,
    connections: 1,
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    body: Duration::from_secs(30),
    drain: Duration::from_secs(20),
    host_look: Limits::HOST_LOOK,
    absent_per_prefix: 1,
    loads: 1,
    loads_per_prefix: 1,
    loads_waiting: 1,
    certificates: CertificateWaits {
        waiting: 1,
        time: Duration::from_secs(20),
    },
};

fn due_in(timeouts: &ConnTimeouts) -> Option<(u64, Due)> {
    let (at, due) = timeouts.due(&LIMITS)?;
    Some((at.duration_since(Instant::now()).as_secs(), due))
}

async fn advance(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Waker that notes its call.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_limit() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(false);
    assert_eq!(due_in(&timeouts), Some((60, Due::Close)));
    advance(5).await;
    timeouts.read();
    assert_eq!(due_in(&timeouts), Some((10, Due::Drop)));
    advance(5).await;
    timeouts.read();
    assert_eq!(due_in(&timeouts), Some((5, Due::Drop)), "dribbling");
    timeouts.begin();
    assert_eq!(due_in(&timeouts), None, "the next step is ours");
    timeouts.end();
    assert_eq!(due_in(&timeouts), Some((60, Due::Close)));
    timeouts.begin();
    timeouts.flow().want_body();
    timeouts.read();
    advance(10).await;
    assert_eq!(due_in(&timeouts), Some((20, Due::Drop)), "a body");
    timeouts.read();
    assert_eq!(due_in(&timeouts), Some((30, Due::Drop)), "bytes of it");
    timeouts.flow().pass_body();
    assert_eq!(due_in(&timeouts), None, "the upstream is to go on");
    timeouts.end();
    timeouts.close();
    assert_eq!(due_in(&timeouts), Some((1, Due::Drop)));
}

#[tokio::test(start_paused = true)]
async fn pings_keep_no_connection() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(true);
    advance(50).await;
    timeouts.read();
    assert_eq!(due_in(&timeouts), Some((10, Due::Close)));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_holds_its_answers_for_seconds() {
    let dropped_in = |seconds| Some((seconds, Due::Drop));
    for (multiplexed, proxied, want) in [
        (true, false, dropped_in(1)),
        (true, true, dropped_in(5)),
        (false, true, dropped_in(5)),
        (false, false, None),
    ] {
        let timeouts = Arc::new(ConnTimeouts::default());
        timeouts.established(multiplexed);
        timeouts.begin();
        let _at_upstream = proxied.then(|| timeouts.at_upstream());
        timeouts.client_ended();
        assert_eq!(due_in(&timeouts), want);
        advance(3).await;
        // A client that closed only its sending side takes bytes.
        timeouts.sent(1);
        assert_eq!(due_in(&timeouts), want);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_request_of_a_client_that_left_wakes_the_connection() {
    let woken = Arc::new(Woken::default());
    let is_woken = || woken.0.load(Relaxed);
    let timeouts = ConnTimeouts::default();
    timeouts.established(true);
    timeouts.begin();
    timeouts.begin();
    timeouts.client_ended();
    timeouts.wake_at_end(&Waker::from(Arc::clone(&woken)));
    timeouts.end();
    assert!(!is_woken(), "a request is left");
    timeouts.end();
    assert!(is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_head_among_streams_has_its_limit_too() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(true);
    timeouts.begin();
    timeouts.in_head(true);
    advance(4).await;
    timeouts.in_head(true);
    assert_eq!(due_in(&timeouts), Some((6, Due::Drop)));
    timeouts.in_head(false);
    assert_eq!(due_in(&timeouts), None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_winds_down_ends_whatever_begins() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(true);
    timeouts.wind_down();
    for second in 0..19 {
        timeouts.begin();
        assert_eq!(due_in(&timeouts), Some((20 - second, Due::Drop)));
        advance(1).await;
        timeouts.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_blocked_client_is_asked_for_its_progress() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(false);
    timeouts.begin();
    timeouts.sent(1_000_000);
    // 20 KB/s: the socket takes nothing for 60 s, and 600 KB are acknowledged.
    timeouts.blocked(|| 900_000);
    assert_eq!(due_in(&timeouts), Some((30, Due::Ask)));
    advance(30).await;
    assert!(timeouts.ask_progress());
    timeouts.blocked(|| 300_000);
    assert_eq!(due_in(&timeouts), Some((30, Due::Ask)), "a new window");
    assert_eq!(timeouts.flowing(), Duration::ZERO);
    advance(30).await;
    assert!(timeouts.ask_progress());
    timeouts.blocked(|| 299_000);
    assert_eq!(
        due_in(&timeouts),
        Some((0, Due::Ask)),
        "33 bytes per second"
    );
    assert!(!timeouts.ask_progress(), "it was asked");
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_begins_no_new_window() {
    let timeouts = ConnTimeouts::default();
    timeouts.established(false);
    timeouts.begin();
    timeouts.sent(1_000_000);
    for second in 0..30 {
        timeouts.blocked(|| 900_000 - second);
        assert_eq!(due_in(&timeouts), Some((30 - second, Due::Ask)));
        advance(1).await;
        timeouts.sent(1);
        advance(1).await;
    }
    assert_eq!(timeouts.flowing().as_secs(), 30, "half of the time");
    timeouts.blocked(|| 900_000);
    assert_eq!(due_in(&timeouts), Some((0, Due::Ask)));
    timeouts.sent(1);
    timeouts.end();
    timeouts.begin();
    timeouts.blocked(|| 900_000);
    assert_eq!(due_in(&timeouts), Some((30, Due::Ask)), "another answer");
}
