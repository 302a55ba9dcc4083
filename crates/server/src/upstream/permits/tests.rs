use std::net::{IpAddr, Ipv4Addr};

use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;
use crate::upstream::request::exchange::GAVE_WAY;

mod clients;

/// Makes a request to host 1.
fn a() -> Asker {
    asker(1)
}

/// Makes a request to host 2.
fn b() -> Asker {
    asker(2)
}

/// Makes a request to a host with a client of its own.
fn asker(host: u64) -> Asker {
    let client = client(u32::try_from(host).unwrap());
    Asker { host, client }
}

/// Makes a request of a client prefix to host 1.
fn of_client(number: u32) -> Asker {
    Asker {
        client: client(number),
        ..a()
    }
}

fn client(number: u32) -> Prefix {
    IpAddr::from(Ipv4Addr::from(number << 8)).into()
}

fn permits(connections: u32, waiting: u32) -> Arc<Permits> {
    Permits::new(Bounds {
        connections,
        waiting,
    })
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// Takes a permit that is free.
fn taken(permits: &Arc<Permits>) -> Permit {
    permits.try_enter(a()).expect("a permit")
}

/// Begins to wait for a permit.
async fn waits(permits: &Arc<Permits>, asker: Asker) -> JoinHandle<Result<Permit, Denied>> {
    let permits = Arc::clone(permits);
    let waits = tokio::spawn(async move { permits.enter(asker, later()).await });
    tokio::task::yield_now().await;
    waits
}

async fn denied(waits: JoinHandle<Result<Permit, Denied>>) -> Denied {
    waits.await.unwrap().expect_err("no permit")
}

#[tokio::test(start_paused = true)]
async fn a_returned_permit_goes_to_the_one_that_waits() {
    let permits = permits(1, 8);
    let first = taken(&permits);
    let second = waits(&permits, a()).await;
    assert!(!second.is_finished());
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert!(!permits.has_room(client(1)));
    drop(second);
    assert!(permits.has_room(client(1)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline() {
    let permits = permits(1, 8);
    let held = taken(&permits);
    let begun = Instant::now();
    let waiting = waits(&permits, a()).await;
    assert_eq!(denied(waiting).await, Denied::Late);
    assert_eq!(begun.elapsed().as_millis() / 10, 500);
    drop(held);
    // The one that left keeps nothing.
    drop(taken(&permits));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_queue_holds_are_refused() {
    let none = permits(0, 0);
    let permits = permits(1, 1);
    let _held = taken(&permits);
    let _first = waits(&permits, a()).await;
    assert_eq!(denied(waits(&permits, a()).await).await, Denied::Full);
    let entered = none.enter(b(), later()).await;
    assert_eq!(entered.err(), Some(Denied::Full));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fills_the_queue_makes_room_for_others() {
    let permits = permits(1, 4);
    let held = taken(&permits);
    let mut flood = Vec::new();
    for number in 11..15 {
        flood.push(waits(&permits, of_client(number)).await);
    }
    let other = waits(&permits, b()).await;
    let newest = flood.pop().unwrap();
    assert_eq!(denied(newest).await, Denied::Full);
    // Then the hosts take turns.
    drop(held);
    let first = flood.remove(0).await.unwrap().unwrap();
    drop(first);
    let other = other.await.unwrap().unwrap();
    assert!(flood.iter().all(|one| !one.is_finished()));
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_not_lost_with_a_request_that_left() {
    let permits = permits(1, 8);
    let held = taken(&permits);
    let left = waits(&permits, a()).await;
    let stays = waits(&permits, a()).await;
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    drop(held);
    drop(stays.await.unwrap().unwrap());
    drop(taken(&permits));
}

#[tokio::test(start_paused = true)]
async fn requests_that_left_keep_no_room() {
    let permits = permits(1, 2);
    let held = taken(&permits);
    for host in 0..1000 {
        let left = waits(&permits, asker(host)).await;
        assert!(!left.is_finished());
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
    }
    assert_eq!(lock(&permits.state).waiting, 0);
    drop(held);
    drop(taken(&permits));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_comes_back_at_once_stands_behind_another() {
    let permits = permits(1, 8);
    let held = taken(&permits);
    let first = waits(&permits, a()).await;
    let (other, second) = (waits(&permits, b()).await, waits(&permits, b()).await);
    drop(held);
    let first = first.await.unwrap().unwrap();
    let again = waits(&permits, a()).await;
    drop(first);
    let other = other.await.unwrap().unwrap();
    assert!(!again.is_finished() && !second.is_finished());
    drop(other);
    drop(second.await.unwrap().unwrap());
    drop(again.await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_permit_is_lost_or_made_between_threads() {
    const CONNECTIONS: u32 = 3;
    let permits = permits(CONNECTIONS, 64);
    let most = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|host| {
            let (permits, most) = (Arc::clone(&permits), Arc::clone(&most));
            tokio::spawn(async move {
                for _ in 0..500 {
                    let permit = permits.enter(asker(host), later()).await.unwrap();
                    most.fetch_max(permits.in_use.load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= CONNECTIONS);
    assert_eq!(permits.in_use.load(Ordering::SeqCst), 0);
    assert!(lock(&permits.state).is_empty());
}
