use super::*;

const LIMITS: Limits = Limits {
    head: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    body: Duration::from_secs(30),
    drain: Duration::from_secs(20),
};

fn due_in(pace: &Pace) -> Option<(u64, Due)> {
    let (at, due) = pace.due(&LIMITS)?;
    Some((at.duration_since(Instant::now()).as_secs(), due))
}

async fn advance(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_limit() {
    let pace = Pace::new();
    pace.established(false);
    assert_eq!(due_in(&pace), Some((60, Due::Close)));
    advance(5).await;
    pace.read();
    assert_eq!(due_in(&pace), Some((10, Due::Drop)));
    advance(5).await;
    pace.read();
    assert_eq!(due_in(&pace), Some((5, Due::Drop)), "dribbling");
    pace.begin(false);
    assert_eq!(due_in(&pace), None, "the next step is ours");
    pace.end();
    assert_eq!(due_in(&pace), Some((60, Due::Close)));
    pace.begin(true);
    pace.read();
    advance(10).await;
    assert_eq!(due_in(&pace), Some((20, Due::Drop)), "a body");
    pace.answered(true);
    assert_eq!(due_in(&pace), None, "the answer is ours");
    pace.end();
    pace.close();
    assert_eq!(due_in(&pace), Some((1, Due::Drop)));
}

#[tokio::test(start_paused = true)]
async fn pings_keep_no_connection() {
    let pace = Pace::new();
    pace.established(true);
    advance(50).await;
    pace.read();
    assert_eq!(due_in(&pace), Some((10, Due::Close)));
    pace.begin(true);
    advance(20).await;
    pace.read();
    assert_eq!(due_in(&pace), Some((10, Due::Drop)), "nor a body");
}

#[tokio::test(start_paused = true)]
async fn a_head_among_streams_has_its_limit_too() {
    let pace = Pace::new();
    pace.established(true);
    pace.begin(false);
    pace.in_head(true);
    advance(4).await;
    pace.in_head(true);
    assert_eq!(due_in(&pace), Some((6, Due::Drop)));
    pace.in_head(false);
    assert_eq!(due_in(&pace), None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_winds_down_ends_whatever_begins() {
    let pace = Pace::new();
    pace.established(true);
    pace.wind_down();
    for second in 0..19 {
        pace.begin(false);
        assert_eq!(due_in(&pace), Some((20 - second, Due::Drop)));
        advance(1).await;
        pace.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_blocked_client_is_asked_for_its_progress() {
    let pace = Pace::new();
    pace.established(false);
    pace.begin(false);
    pace.sent(1_000_000);
    // 20 KB/s: the socket takes nothing for 60 s, and 600 KB are acknowledged.
    pace.blocked(|| 900_000);
    assert_eq!(due_in(&pace), Some((30, Due::Ask)));
    advance(30).await;
    assert!(pace.ask_progress());
    pace.blocked(|| 300_000);
    assert_eq!(due_in(&pace), Some((30, Due::Ask)), "a new window");
    assert_eq!(pace.flowing(), Duration::ZERO);
    advance(30).await;
    assert!(pace.ask_progress());
    pace.blocked(|| 299_000);
    assert_eq!(due_in(&pace), Some((0, Due::Ask)), "33 bytes per second");
    assert!(!pace.ask_progress(), "it was asked");
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_begins_no_new_window() {
    let pace = Pace::new();
    pace.established(false);
    pace.begin(false);
    pace.sent(1_000_000);
    for second in 0..30 {
        pace.blocked(|| 900_000 - second);
        assert_eq!(due_in(&pace), Some((30 - second, Due::Ask)));
        advance(1).await;
        pace.sent(1);
        advance(1).await;
    }
    assert_eq!(pace.flowing().as_secs(), 30, "half of the time");
    pace.blocked(|| 900_000);
    assert_eq!(due_in(&pace), Some((0, Due::Ask)));
    pace.sent(1);
    pace.end();
    pace.begin(false);
    pace.blocked(|| 900_000);
    assert_eq!(due_in(&pace), Some((30, Due::Ask)), "another answer");
}
