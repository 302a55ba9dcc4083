use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::time::advance;

use super::*;

type Waiting = Pin<Box<dyn Future<Output = Result<Permit<u8>, Denied>>>>;

/// Begins to wait.
fn waits(gate: &Gate<u8>, key: u8) -> Waiting {
    let gate = gate.clone();
    let mut waiting: Waiting = Box::pin(async move { gate.enter(key).await });
    assert!(poll(&mut waiting).is_pending());
    waiting
}

fn poll(waiting: &mut Waiting) -> Poll<Result<Permit<u8>, Denied>> {
    let mut cx = Context::from_waker(Waker::noop());
    waiting.as_mut().poll(&mut cx)
}

/// Returns the permit that a caller has got by now.
fn got(waiting: &mut Waiting) -> Option<Permit<u8>> {
    match poll(waiting) {
        Poll::Ready(permit) => Some(permit.expect("a permit")),
        Poll::Pending => None,
    }
}

/// Takes as many permits as a key gets at once.
fn fill(gate: &Gate<u8>, key: u8) -> Vec<Permit<u8>> {
    std::iter::from_fn(|| gate.try_enter(key)).collect()
}

fn assert_unused(gate: &Gate<u8>) {
    assert_eq!(
        format!("{:?}", gate.lock().keys()),
        "[]",
        "who has none is forgotten"
    );
    assert_eq!((gate.used(), gate.lock().waiting()), (0, 0));
}

#[test]
fn a_key_leaves_others_as_many_as_it_has() {
    let gate = Gate::new(100, Sharing::FewerThanLeft, 0);
    let first = fill(&gate, 1);
    let second = fill(&gate, 2);
    let third = fill(&gate, 3);
    assert_eq!((first.len(), second.len(), third.len()), (50, 25, 13));
    assert_eq!((gate.used(), gate.used_by(&2)), (88, 25));
    assert_eq!(third[0].used(), (13, 88));
    drop((first, second, third));
    assert_unused(&gate);
}

#[test]
fn no_key_has_more_than_its_bound() {
    let gate = Gate::new(4, Sharing::AtMost(|key| usize::from(*key)), 8);
    let mut two = fill(&gate, 2);
    assert_eq!(two.len(), 2);
    let mut more = waits(&gate, 2);
    let one = fill(&gate, 1);
    assert_eq!(one.len(), 1);
    assert!(got(&mut more).is_none());
    two.pop();
    assert!(got(&mut more).is_some());
    drop((two, one));
    assert_unused(&gate);
}

#[test]
fn a_share_holds_while_others_wait() {
    let gate = Gate::new(2, Sharing::WhileOthersWait(1), 8);
    let mut crowd = fill(&gate, 1);
    assert_eq!(crowd.len(), 2);
    let mut next = waits(&gate, 1);
    let mut other = waits(&gate, 2);
    crowd.pop();
    assert!(got(&mut next).is_none());
    let other = got(&mut other).expect("the crowd has its share");
    drop(other);
    assert!(got(&mut next).is_some(), "nobody else waits");
}

#[test]
fn keys_take_turns() {
    let gate = Gate::new(1, Sharing::AtMost(|_| 1), 1000);
    let first = gate.try_enter(1).unwrap();
    let mut crowd: Vec<_> = (0..100).map(|_| waits(&gate, 1)).collect();
    let mut neighbours = [waits(&gate, 2), waits(&gate, 2)];
    drop(first);
    // The key that has just had a turn goes after the other one.
    let first = got(&mut neighbours[0]).expect("a turn");
    assert!(got(&mut neighbours[1]).is_none());
    drop(first);
    drop(got(&mut crowd[0]).expect("a turn"));
    drop(got(&mut neighbours[1]).expect("a turn"));
    drop(got(&mut crowd[1]).expect("a turn"));
}

#[test]
fn a_full_queue_makes_room_for_a_key_with_fewer() {
    let gate = Gate::new(1, Sharing::WhileOthersWait(1), 3);
    let held = gate.try_enter(1).unwrap();
    let mut crowd = [(); 3].map(|()| waits(&gate, 1));
    let full = poll(&mut {
        let gate = gate.clone();
        Box::pin(async move { gate.enter(1).await }) as Waiting
    });
    assert!(matches!(full, Poll::Ready(Err(Denied::Full))));
    let mut other = waits(&gate, 2);
    let newest = poll(&mut crowd[2]);
    assert!(matches!(newest, Poll::Ready(Err(Denied::Full))));
    drop(held);
    assert!(got(&mut other).is_some());
    assert!(got(&mut crowd[0]).is_some());
    assert!(got(&mut crowd[1]).is_some());
    assert_unused(&gate);
}

#[test]
fn callers_that_left_keep_no_room_and_no_permit() {
    let gate = Gate::new(1, Sharing::FewerThanLeft, 2);
    let held = gate.try_enter(1).unwrap();
    drop([waits(&gate, 2), waits(&gate, 2)]);
    let left = waits(&gate, 3);
    let mut stays = waits(&gate, 3);
    // The permit is sent, and its caller leaves before it looks.
    drop(held);
    drop(left);
    assert!(got(&mut stays).is_some());
    assert_unused(&gate);
}

#[test]
fn a_permit_may_pass_to_its_own_key_and_to_another() {
    let gate = Gate::new(6, Sharing::FewerThanLeft, 8);
    let [first, _second] = [(); 2].map(|()| gate.try_enter(1).unwrap());
    let _others = [(); 2].map(|()| gate.try_enter(2).unwrap());
    let mut other = waits(&gate, 2);
    let mut own = waits(&gate, 1);
    drop(first);
    let other = got(&mut other);
    assert!(other.is_some() && got(&mut own).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end() {
    let gate = Gate::new(1, Sharing::FewerThanLeft, 2);
    let held = gate.try_enter(1);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(5);
    let late = gate.enter_until(2, until).await;
    assert_eq!(late.unwrap_err(), Denied::Late);
    assert_eq!(begun.elapsed().as_secs(), 5);
    drop(held);
    assert!(gate.enter_until(2, until).await.is_ok());
}

/// While a key rests, another one has permits at once, and it has none itself, though
/// nobody else waits.
#[tokio::test(start_paused = true)]
async fn a_key_that_rests_gives_way() {
    let gate = Gate::new(1, Sharing::AtMost(|_| 1), 1000);
    let pause = Duration::from_millis(20);
    let after = Duration::from_millis(21);
    let first = gate.try_enter(1).unwrap();
    let mut crowd = [(); 3].map(|()| waits(&gate, 1));
    first.rest(pause);
    let mut late = waits(&gate, 1);
    assert!(got(&mut crowd[0]).is_none());
    for _ in 0..2 {
        drop(gate.try_enter(2).expect("a permit"));
    }
    // The pause ends while another key has the permit.
    let other = gate.try_enter(2).unwrap();
    tokio::time::sleep(after).await;
    assert!(got(&mut crowd[0]).is_none());
    drop(other);
    let second = got(&mut crowd[0]).expect("a permit");
    // The pause ends while nobody has it.
    second.rest(pause);
    tokio::task::yield_now().await;
    advance(pause / 2).await;
    assert!(got(&mut crowd[1]).is_none());
    tokio::time::sleep(after).await;
    drop(got(&mut crowd[1]).expect("a permit"));
    drop(got(&mut crowd[2]).expect("a permit"));
    drop(got(&mut late).expect("a permit"));
    assert_unused(&gate);
}

#[test]
fn keys_with_their_share_are_known() {
    let gate = Gate::new(8, Sharing::FewerThanLeft, 8);
    let one = fill(&gate, 1);
    let two = gate.try_enter(2);
    assert_eq!((one.len(), gate.sated()), (4, vec![1]));
    drop(two);
    let odd = Gate::new(3, Sharing::FewerThanLeft, 8);
    let _held = (fill(&odd, 1), fill(&odd, 2));
    let _waits = waits(&odd, 3);
    let mut sated = odd.sated();
    sated.sort_unstable();
    assert_eq!((odd.used(), sated), (3, vec![1, 2]));
}
