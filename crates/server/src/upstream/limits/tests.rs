use std::net::{IpAddr, Ipv4Addr};

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;
use crate::upstream::exchange::{GAVE_WAY, WAITING};

mod clients;

const ACME: u64 = 7;
const OTHER: u64 = 8;

/// Makes a request to host 1 of the tenant.
fn a() -> Asker {
    asker(ACME, 1)
}

/// Makes a request to host 2 of the tenant.
fn b() -> Asker {
    asker(ACME, 2)
}

/// Makes a request to a host with a client of its own.
fn asker(tenant: u64, host: u64) -> Asker {
    let client = client(u32::try_from(host).unwrap());
    Asker {
        tenant,
        host,
        client,
    }
}

/// Makes a request of a client prefix to host 1 of the tenant.
fn of_client(number: u32) -> Asker {
    Asker {
        client: client(number),
        ..a()
    }
}

fn client(number: u32) -> Prefix {
    IpAddr::from(Ipv4Addr::from(number << 8)).into()
}

fn bounds(connections: u32, waiting: u32) -> Bounds {
    Bounds {
        connections,
        waiting,
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// Takes a slot that is free.
fn taken(slots: &Arc<Slots>, connections: u32) -> Slot {
    taken_by(slots, a(), connections)
}

fn taken_by(slots: &Arc<Slots>, asker: Asker, connections: u32) -> Slot {
    let entered = Slots::enter(slots, asker, bounds(connections, 0), later());
    let entered = entered.now_or_never();
    entered.expect("no wait").expect("a slot")
}

/// Begins to wait for a slot of this many.
async fn waits(
    slots: &Arc<Slots>,
    asker: Asker,
    connections: u32,
    waiting: u32,
) -> JoinHandle<Result<Slot, Denied>> {
    let slots = Arc::clone(slots);
    let waits = tokio::spawn(async move {
        Slots::enter(&slots, asker, bounds(connections, waiting), later()).await
    });
    tokio::task::yield_now().await;
    waits
}

async fn denied(waits: JoinHandle<Result<Slot, Denied>>) -> Denied {
    waits.await.unwrap().expect_err("no slot")
}

#[tokio::test(start_paused = true)]
async fn a_returned_slot_goes_to_the_one_that_waits() {
    let slots = Arc::new(Slots::default());
    let first = taken(&slots, 1);
    let second = waits(&slots, a(), 1, 8).await;
    assert!(!second.is_finished());
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert!(!slots.has_room(ACME, client(1), 1));
    drop(second);
    assert!(slots.has_room(ACME, client(1), 1));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    let begun = Instant::now();
    let waiting = waits(&slots, a(), 1, 8).await;
    assert_eq!(denied(waiting).await, Denied::TimedOut);
    assert_eq!(begun.elapsed().as_millis() / 10, 500);
    drop(held);
    // The one that left keeps nothing.
    drop(taken(&slots, 1));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_queue_holds_are_refused() {
    let slots = Arc::new(Slots::default());
    let _held = taken(&slots, 1);
    let _first = waits(&slots, a(), 1, 1).await;
    assert_eq!(denied(waits(&slots, a(), 1, 1).await).await, Denied::Full);
    let entered = Slots::enter(&slots, b(), bounds(1, 0), later());
    assert_eq!(entered.await.err(), Some(Denied::Full));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fills_the_queue_makes_room_for_others() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    let mut flood = Vec::new();
    for number in 11..15 {
        flood.push(waits(&slots, of_client(number), 1, 4).await);
    }
    let other = waits(&slots, b(), 1, 4).await;
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
async fn a_site_with_more_connections_does_not_wait_for_one_with_fewer() {
    let slots = Arc::new(Slots::default());
    let (first, _second) = (taken(&slots, 2), taken_by(&slots, of_client(9), 2));
    let few = waits(&slots, a(), 1, 8).await;
    let many = waits(&slots, b(), 3, 8).await;
    let _many = many.await.unwrap().unwrap();
    drop(first);
    assert!(!few.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_not_lost_with_a_request_that_left() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    let left = waits(&slots, a(), 1, 8).await;
    let stays = waits(&slots, a(), 1, 8).await;
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    drop(held);
    drop(stays.await.unwrap().unwrap());
    drop(taken(&slots, 1));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_a_high_bound_leaves_another_its_own() {
    let slots = Arc::new(Slots::default());
    let _many: Vec<_> = (0..100).map(|_| taken(&slots, 65_536)).collect();
    let _crowd: Vec<_> = {
        let mut crowd = Vec::new();
        for host in 0..50 {
            crowd.push(waits(&slots, asker(ACME, host), 1, 65_536).await);
        }
        crowd
    };
    assert!(slots.has_room(OTHER, client(1), 1));
    let entered = Slots::enter(&slots, asker(OTHER, 1), bounds(1, 1), later()).now_or_never();
    let held = entered.expect("no wait").expect("a slot");
    assert!(!slots.has_room(OTHER, client(1), 1));
    let waiting = waits(&slots, asker(OTHER, 1), 1, 1).await;
    assert!(!waiting.is_finished());
    drop(held);
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn requests_that_left_keep_no_room() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    for host in 0..1000 {
        let left = waits(&slots, asker(ACME, host), 1, 2).await;
        assert!(!left.is_finished());
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
    }
    assert_eq!(slots.lock().queue.of_tenant(ACME), 0);
    drop(held);
    drop(taken(&slots, 1));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_comes_back_at_once_stands_behind_another() {
    let slots = Arc::new(Slots::default());
    let held = taken(&slots, 1);
    let first = waits(&slots, a(), 1, 8).await;
    let (other, second) = (
        waits(&slots, b(), 1, 8).await,
        waits(&slots, b(), 1, 8).await,
    );
    drop(held);
    let first = first.await.unwrap().unwrap();
    let again = waits(&slots, a(), 1, 8).await;
    drop(first);
    let other = other.await.unwrap().unwrap();
    assert!(!again.is_finished() && !second.is_finished());
    drop(other);
    drop(second.await.unwrap().unwrap());
    drop(again.await.unwrap().unwrap());
}

#[test]
fn tenants_share_the_bound_of_a_server() {
    let mut used = Used::default();
    let takes = |used: &mut Used, tenant| {
        (0..MOST)
            .take_while(|number| used.take(tenant, client(*number), u32::MAX))
            .count()
    };
    let most = usize::try_from(MOST).unwrap();
    assert_eq!(takes(&mut used, ACME), most / 2);
    assert_eq!(takes(&mut used, OTHER), most / 4);
    assert_eq!(takes(&mut used, ACME), 0);
    for tenant in 100..10_000 {
        used.take(tenant, client(1), 1);
    }
    assert!(used.all < MOST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_slot_is_lost_or_made_between_threads() {
    const CONNECTIONS: u32 = 3;
    let slots = Arc::new(Slots::default());
    let most = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|host| {
            let (slots, most) = (Arc::clone(&slots), Arc::clone(&most));
            tokio::spawn(async move {
                for _ in 0..500 {
                    let bounds = bounds(CONNECTIONS, 64);
                    let slot = Slots::enter(&slots, asker(host % 3, host), bounds, later())
                        .await
                        .unwrap();
                    most.fetch_max(slots.in_use.load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    drop(slot);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Three tenants, each with its bound.
    assert!(most.load(Ordering::SeqCst) <= 3 * CONNECTIONS);
    assert_eq!(slots.in_use.load(Ordering::SeqCst), 0);
    let state = slots.lock();
    assert!((0..3).all(|tenant| state.queue.of_tenant(tenant) == 0));
    assert!(state.used.is_empty());
}
