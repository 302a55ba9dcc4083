//! Tests that client prefixes share a backend's permits.

use super::*;

/// Returns the permits that a client prefix gets.
fn all(permits: &Arc<Permits>, number: u32) -> Vec<Permit> {
    let take = || permits.try_enter(of_client(number));
    std::iter::from_fn(take).collect()
}

/// Makes a body that waits for its client, and keeps its permit until it has to give way.
fn body(mut permit: Permit) -> Arc<Exchange> {
    let body = Arc::new(Exchange::new(false, Arc::default()));
    permit.watch(&body);
    body.flow.want_body();
    let seen = Arc::clone(&body);
    tokio::spawn(async move {
        while !seen.is(GAVE_WAY) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(permit);
    });
    body
}

/// Fills 32 permits with bodies of several client prefixes, one after the other: 16, 8, 4,
/// 2, 1 and 1.
async fn filled(permits: &Arc<Permits>) -> Vec<Arc<Exchange>> {
    let mut bodies = Vec::new();
    for number in 1..=6 {
        for permit in all(permits, number) {
            bodies.push(body(permit));
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
        let permits = permits(connections, 8);
        let first = all(&permits, 1);
        let second = all(&permits, 2);
        assert_eq!([first.len(), second.len()], shares, "{connections}");
        drop((first, second));
        assert!(lock(&permits.state).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_requests_wait_holds_up_none_of_anothers() {
    let permits = permits(8, 8);
    let held = all(&permits, 1);
    let mut flood = Vec::new();
    for _ in 0..4 {
        flood.push(waits(&permits, of_client(1)).await);
    }
    // It has its half of the queue, too.
    let full = waits(&permits, of_client(1)).await;
    assert_eq!(denied(full).await, Denied::Full);
    assert!(permits.has_room(client(2)));
    assert!(!permits.has_room(client(1)));
    let others = all(&permits, 2);
    assert_eq!(others.len(), 2);
    assert!(flood.iter().all(|one| !one.is_finished()));
    drop(held);
    for one in flood {
        drop(one.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_one_of_a_client_that_has_none_there() {
    let permits = permits(1, 4);
    let held = taken(&permits);
    let mut waiting = Vec::new();
    for number in [1, 1, 2, 3] {
        waiting.push(waits(&permits, of_client(number)).await);
    }
    let newcomer = waits(&permits, of_client(4)).await;
    assert_eq!(denied(waiting.remove(1)).await, Denied::Full);
    let refused = waits(&permits, of_client(5)).await;
    assert_eq!(denied(refused).await, Denied::Full);
    drop(held);
    for one in waiting.into_iter().chain([newcomer]) {
        drop(one.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_that_waited_longest_gives_way() {
    let permits = permits(ALL, 8);
    let bodies = filled(&permits).await;
    // It moves again: the next one has waited longest.
    bodies[0].flow.postpone();
    let begun = Instant::now();
    let permit = waits(&permits, of_client(9)).await;
    let permit = permit.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(gave_way(&bodies), [1]);
    // A second permit takes two, since one is left to others.
    let second = waits(&permits, of_client(9)).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(gave_way(&bodies), [1, 2, 3]);
    drop((permit, second));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_move_or_are_answered_stay() {
    let permits = permits(ALL, 8);
    let bodies = filled(&permits).await;
    for body in &bodies[1..] {
        body.answered();
    }
    let moving = Arc::clone(&bodies[0]);
    tokio::spawn(async move {
        loop {
            moving.flow.postpone();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let newcomer = waits(&permits, of_client(9)).await;
    assert_eq!(denied(newcomer).await, Denied::Late);
    assert!(gave_way(&bodies).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_half_as_many_makes_no_body_give_way() {
    let permits = permits(ALL, 8);
    let bodies = filled(&permits).await;
    for number in [1, 2] {
        let more = waits(&permits, of_client(number)).await;
        assert_eq!(denied(more).await, Denied::Late);
    }
    assert!(gave_way(&bodies).is_empty());
}
