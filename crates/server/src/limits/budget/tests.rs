use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{advance, timeout, timeout_at};

use super::*;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn budget(absent: usize, loads: usize, per_prefix: usize, waiting: usize) -> Budget {
    Budget {
        tokens: Arc::new(AbsenceTokens::new(absent)),
        over: Over::default(),
        in_flight: Gate::new(loads, Sharing::WhileOthersWait(per_prefix), waiting),
        certificates: Gate::new(0, Sharing::FewerThanLeft, 0),
        certificate_time: Duration::ZERO,
    }
}

/// Admits with a deadline later than any wait.
async fn admit(budget: &Budget, prefix: Prefix) -> Result<Permit, LookupError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    budget.admit(prefix, deadline).await
}

fn prefix(text: &str) -> Prefix {
    text.parse::<IpAddr>().unwrap().into()
}

#[test]
fn a_prefix_is_a_neighbourhood() {
    assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.254"));
    assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
    assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.9"));
    assert_eq!(prefix("2001:db8:0:aa00::1"), prefix("2001:db8:0:aaff::1"));
    assert_ne!(prefix("2001:db8:0:aa00::1"), prefix("2001:db8:0:ab00::1"));
    assert_ne!(prefix("0.0.0.1"), prefix("::1"));
}

#[test]
fn a_wide_prefix_holds_its_neighbours() {
    let wide = |text| prefix(text).wider();
    assert_eq!(wide("192.0.2.1"), wide("192.0.3.1"));
    assert_ne!(wide("192.0.2.1"), wide("192.1.2.1"));
    assert_eq!(wide("2001:db8:0:aa00::1"), wide("2001:db8:0:bb00::1"));
    assert_ne!(wide("2001:db8:0:aa00::1"), wide("2001:db8:1:aa00::1"));
    assert_ne!(wide("192.0.0.1"), prefix("192.0.0.1"));
}

#[test]
fn a_prefix_shows_its_network() {
    assert_eq!(prefix("192.0.2.77").to_string(), "192.0.2.0/24");
    let shown = prefix("2001:db8:0:aa77::1").to_string();
    assert_eq!(shown, "2001:db8:0:aa00::/56");
}

#[tokio::test(start_paused = true)]
async fn absences_are_charged_and_the_rest_is_not() {
    let budget = budget(3, 256, 64, 4096);
    let (attacker, other) = (prefix("192.0.2.1"), prefix("198.51.100.1"));
    for _ in 0..100 {
        drop(admit(&budget, attacker).await.unwrap());
    }
    for _ in 0..3 {
        admit(&budget, attacker).await.unwrap().was_absent();
    }
    let second = Duration::from_secs(1);
    assert!(timeout(second, admit(&budget, attacker)).await.is_err());
    assert!(admit(&budget, other).await.is_ok());
    advance(20 * second).await;
    admit(&budget, attacker).await.unwrap().was_absent();
    assert!(timeout(second, admit(&budget, attacker)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn names_that_exist_get_through_over_budget() {
    let budget = budget(600, 256, 64, 4096);
    let crowd = prefix("192.0.2.1");
    for _ in 0..600 {
        admit(&budget, crowd).await.unwrap().was_absent();
    }
    // Five absent names per second continue: half of what the bucket regains.
    let deadline = Duration::from_secs(2);
    for round in 0..10 {
        admit(&budget, crowd).await.unwrap().was_absent();
        let existing = timeout(deadline, admit(&budget, crowd)).await;
        drop(
            existing
                .unwrap_or_else(|_| panic!("round {round}"))
                .unwrap(),
        );
        advance(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn over_budget_the_newest_wait_in_place_of_the_oldest() {
    let budget = budget(1, 256, 64, 4096);
    let crowd = prefix("192.0.2.1");
    admit(&budget, crowd).await.unwrap().was_absent();
    let mut waiting: Vec<_> = (0..65).map(|_| Box::pin(admit(&budget, crowd))).collect();
    for wait in &mut waiting {
        assert!(poll(wait.as_mut()).is_pending());
    }
    advance(Duration::from_millis(101)).await;
    let Poll::Ready(Err(denied)) = poll(waiting[0].as_mut()) else {
        panic!("the oldest still waits");
    };
    assert!(matches!(denied, LookupError::OverBudget));
    assert!(poll(waiting[1].as_mut()).is_pending());
    assert!(poll(waiting[64].as_mut()).is_pending());
    drop(waiting);
    assert_eq!(
        format!("{:?}", budget.over),
        format!("{:?}", Over::default())
    );
}

#[tokio::test(start_paused = true)]
async fn over_budget_is_told_before_the_deadline() {
    let budget = budget(1, 256, 64, 4096);
    let crowd = prefix("192.0.2.1");
    admit(&budget, crowd).await.unwrap().was_absent();
    for wait in [50, 400, 10_000].map(Duration::from_millis) {
        let deadline = Instant::now() + wait;
        let denied = timeout_at(deadline, budget.admit(crowd, deadline)).await;
        let denied = denied.expect("an answer before the deadline");
        assert!(matches!(denied, Err(LookupError::OverBudget)));
    }
}

#[tokio::test(start_paused = true)]
async fn many_prefixes_share_a_wider_budget() {
    let budget = budget(10, 256, 64, 4096);
    for number in 0..16 {
        let prefix = prefix(&format!("192.0.{number}.1"));
        for _ in 0..10 {
            admit(&budget, prefix).await.unwrap().was_absent();
        }
    }
    let second = Duration::from_secs(1);
    let next = admit(&budget, prefix("192.0.16.1"));
    // The wide prefix regains 16 times 10 a minute.
    assert!(timeout(second / 5, next).await.is_err());
    assert!(admit(&budget, prefix("192.1.0.1")).await.is_ok());
    let next = timeout(second, admit(&budget, prefix("192.0.16.1"))).await;
    assert!(next.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_look_at_a_host_is_charged_to_no_prefix() {
    let budget = budget(4, 1, 1, 2);
    let crowd = prefix("192.0.2.1");
    let held = admit(&budget, crowd).await.unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(admit(&budget, crowd))).collect();
    for wait in &mut waiting {
        assert!(poll(wait.as_mut()).is_pending());
    }
    assert!(budget.try_token(crowd).is_some_and(|token| {
        token.spend();
        budget.try_token(crowd).is_none()
    }));
    let mut look = Box::pin(budget.admit_look(Tenant::default()));
    assert!(poll(look.as_mut()).is_pending());
    let refused = poll(waiting[1].as_mut());
    assert!(matches!(
        refused,
        Poll::Ready(Err(LookupError::Store(StoreError::Overloaded)))
    ));
    drop(held);
    assert!(poll(look.as_mut()).is_ready(), "the crowd has its share");
}
