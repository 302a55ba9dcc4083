//! Tests that client prefixes share a tenant's slots.

use super::*;

/// Returns how many slots a client prefix gets.
fn all(slots: &Arc<Slots>, number: u32, connections: u32) -> Vec<Slot> {
    let take = || Slots::take(slots, of_client(number), connections);
    std::iter::from_fn(take).collect()
}

/// Makes a body that waits for its client, and keeps its slot until it has to give way.
fn body(mut slot: Slot) -> Arc<Exchange> {
    let body = Arc::new(Exchange::new(false));
    slot.watch(&body);
    body.moved();
    body.set(WAITING);
    let seen = Arc::clone(&body);
    tokio::spawn(async move {
        while !seen.is(GAVE_WAY) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(slot);
    });
    body
}

/// Fills 32 slots with bodies of several client prefixes, one after the other: 16, 8, 4,
/// 2, 1 and 1.
async fn filled(slots: &Arc<Slots>) -> Vec<Arc<Exchange>> {
    let mut bodies = Vec::new();
    for number in 1..=6 {
        for slot in all(slots, number, ALL) {
            bodies.push(body(slot));
            advance(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(bodies.len(), 32);
    bodies
}

fn gave_way(bodies: &[Arc<Exchange>]) -> Vec<usize> {
    let numbered = bodies.iter().enumerate();
    let gave_way = numbered.filter(|(_, body)| body.is(GAVE_WAY));
    gave_way.map(|(index, _)| index).collect()
}

const ALL: u32 = 32;

#[tokio::test(start_paused = true)]
async fn a_client_leaves_others_as_many_as_it_has() {
    for (connections, shares) in [(1, [1, 0]), (2, [1, 1]), (3, [2, 1]), (1024, [512, 256])] {
        let slots = Arc::new(Slots::default());
        let first = all(&slots, 1, connections);
        let second = all(&slots, 2, connections);
        assert_eq!([first.len(), second.len()], shares, "{connections}");
        drop((first, second));
        assert!(slots.lock().used.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_requests_wait_holds_up_none_of_anothers() {
    let slots = Arc::new(Slots::default());
    let held = all(&slots, 1, 8);
    let mut flood = Vec::new();
    for _ in 0..4 {
        flood.push(waits(&slots, of_client(1), 8, 8).await);
    }
    // It has its half of the queue, too.
    let full = waits(&slots, of_client(1), 8, 8).await;
    assert_eq!(denied(full).await, Denied::Full);
    assert!(slots.has_room(ACME, client(2), 8));
    assert!(!slots.has_room(ACME, client(1), 8));
    let others = all(&slots, 2, 8);
    assert_eq!(others.len(), 2);
    assert!(flood.iter().all(|one| !one.is_finished()));
    drop(held);
    for one in flood {
        drop(one.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_one_of_a_client_that_has_none_there() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    let mut waiting = Vec::new();
    for number in [1, 1, 2, 3] {
        waiting.push(waits(&slots, of_client(number), 1, 4).await);
    }
    let newcomer = waits(&slots, of_client(4), 1, 4).await;
    assert_eq!(denied(waiting.remove(1)).await, Denied::Full);
    let refused = waits(&slots, of_client(5), 1, 4).await;
    assert_eq!(denied(refused).await, Denied::Full);
    drop(held);
    for one in waiting.into_iter().chain([newcomer]) {
        drop(one.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_that_waited_longest_gives_way() {
    let slots = Arc::new(Slots::default());
    let bodies = filled(&slots).await;
    // It moves again: the next one has waited longest.
    bodies[0].moved();
    let begun = Instant::now();
    let slot = waits(&slots, of_client(9), ALL, 8).await;
    let slot = slot.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(gave_way(&bodies), [1]);
    // A second slot takes two, since one is left to others.
    let second = waits(&slots, of_client(9), ALL, 8).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(gave_way(&bodies), [1, 2, 3]);
    drop((slot, second));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_move_or_are_answered_stay() {
    let slots = Arc::new(Slots::default());
    let bodies = filled(&slots).await;
    for body in &bodies[1..] {
        body.answered();
    }
    let moving = Arc::clone(&bodies[0]);
    tokio::spawn(async move {
        loop {
            moving.moved();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let newcomer = waits(&slots, of_client(9), ALL, 8).await;
    assert_eq!(denied(newcomer).await, Denied::TimedOut);
    assert!(gave_way(&bodies).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_half_as_many_makes_no_body_give_way() {
    let slots = Arc::new(Slots::default());
    let bodies = filled(&slots).await;
    for number in [1, 2] {
        let more = waits(&slots, of_client(number), ALL, 8).await;
        assert_eq!(denied(more).await, Denied::TimedOut);
    }
    // Nor does another tenant's.
    drop(taken_by(&slots, asker(OTHER, 1), ALL));
    assert!(gave_way(&bodies).is_empty());
}
