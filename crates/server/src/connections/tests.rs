use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::mpsc;
use std::thread;

use super::*;

fn prefix(number: u8) -> Prefix {
    IpAddr::from([192, 0, number, 1]).into()
}

fn workers<const COUNT: usize>(limit: usize) -> [Arc<Connections>; COUNT] {
    let workers = Connections::of_workers(COUNT, limit, 1000, Arc::default());
    workers.collect::<Vec<_>>().try_into().unwrap()
}

fn connections(limit: usize) -> Arc<Connections> {
    let [connections] = workers(limit);
    connections
}

async fn enter(connections: &Arc<Connections>, number: u8) -> Place {
    let permit = connections.permit().await.unwrap();
    connections.enter(prefix(number), permit)
}

async fn fill(connections: &Arc<Connections>, number: u8, count: usize) -> Vec<Place> {
    let mut places = Vec::new();
    for _ in 0..count {
        places.push(enter(connections, number).await);
    }
    places
}

async fn fill_each(
    connections: &Arc<Connections>,
    numbers: RangeInclusive<u8>,
    count: usize,
) -> Vec<Place> {
    let mut places = Vec::new();
    for number in numbers {
        places.extend(fill(connections, number, count).await);
    }
    places
}

/// Sets how long ago the connection's task ran.
fn idle(place: &Place, millis: u64) {
    place.state.active.store(now() - millis, Ordering::Relaxed);
}

fn is_given_up(place: &Place) -> bool {
    place.state.given_up.load(Ordering::Acquire)
}

fn given_up(places: &[Place]) -> Vec<usize> {
    let given_up = places.iter().enumerate();
    let given_up = given_up.filter(|(_, place)| is_given_up(place));
    given_up.map(|(index, _)| index).collect()
}

#[tokio::test]
async fn below_the_water_mark_nobody_gives_up() {
    let connections = connections(64);
    let places = fill(&connections, 1, 60).await;
    places.iter().for_each(|place| idle(place, 60_000));
    assert!(given_up(&places).is_empty());
    assert_eq!(connections.lock().total, 60);
}

#[tokio::test]
async fn above_it_the_longest_idle_of_the_crowd_gives_up() {
    let connections = connections(64);
    let crowd = fill(&connections, 1, 60).await;
    for (index, place) in crowd.iter().enumerate() {
        idle(place, 2000 + index as u64);
    }
    idle(&crowd[17], 90_000);
    let other = enter(&connections, 2).await;
    assert_eq!(given_up(&crowd), [17]);
    assert!(!is_given_up(&other));
    // New connections of the crowd close only idle ones of the crowd.
    let mut crowd = crowd;
    crowd.remove(17);
    crowd.iter().for_each(|place| idle(place, 0));
    let more = enter(&connections, 1).await;
    assert!(given_up(&crowd).is_empty());
    idle(&crowd[3], 5000);
    let another = enter(&connections, 1).await;
    assert_eq!(given_up(&crowd), [3]);
    drop((crowd, more, another, other));
    let open = connections.lock();
    assert_eq!((open.total, open.by_count.len()), (0, 0));
    assert!(open.prefixes.is_empty());
}

#[tokio::test]
async fn prefixes_within_their_share_keep_theirs_until_the_limit() {
    let connections = connections(64);
    let all = fill_each(&connections, 1..=16, 4).await;
    all.iter().for_each(|place| idle(place, 60_000));
    assert!(given_up(&all).is_empty());
    let newcomer = enter(&connections, 99).await;
    assert_eq!(given_up(&all).len(), 1);
    assert!(!is_given_up(&newcomer));
}

#[tokio::test]
async fn many_give_up_at_once() {
    let connections = connections(1024);
    let crowd = fill(&connections, 1, 960).await;
    crowd.iter().for_each(|place| idle(place, 60_000));
    let _other = enter(&connections, 2).await;
    assert_eq!(given_up(&crowd).len(), 960 / AT_ONCE);
    assert_eq!(connections.lock().total, 961 - 960 / AT_ONCE);
    drop(crowd);
    assert_eq!(connections.lock().total, 1);
}

#[tokio::test]
async fn who_is_given_up_ends() {
    let connections = connections(1);
    let first = enter(&connections, 1).await;
    idle(&first, 5000);
    let first = tokio::spawn(first.hold(std::future::pending()));
    tokio::task::yield_now().await;
    let state = Arc::clone(&connections.lock().prefixes[&prefix(1)][0]);
    state.active.store(now() - 5000, Ordering::Relaxed);
    let _second = enter(&connections, 2).await;
    first.await.unwrap();
    assert_eq!(connections.lock().total, 1);
}

#[tokio::test]
async fn a_proxys_connections_have_the_share_of_their_clients() {
    let connections = connections(64);
    let permit = async || connections.permit().await.unwrap();
    let mut unnamed = Vec::new();
    for _ in 0..60 {
        unnamed.push(connections.enter_unnamed(permit().await));
    }
    assert_eq!(connections.lock().total, 60);
    assert!(connections.lock().prefixes.is_empty());
    let crowd: Vec<_> = unnamed
        .drain(..40)
        .map(|unnamed| unnamed.enter(prefix(1)))
        .collect();
    assert_eq!(connections.lock().total, 60);
    crowd.iter().for_each(|place| idle(place, 60_000));
    let other = connections.enter_unnamed(permit().await).enter(prefix(2));
    assert_eq!(given_up(&crowd).len(), 1);
    assert!(!is_given_up(&other));
    drop((crowd, unnamed, other));
    let open = connections.lock();
    assert_eq!((open.total, open.by_count.len()), (0, 0));
}

#[tokio::test]
async fn below_the_watermark_a_worker_touches_its_own_table_alone() {
    let [first, second] = workers(64);
    let _places = fill(&first, 1, 58).await;
    let permit = second.permit().await.unwrap();
    let locked = first.lock();
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        drop(second.enter(prefix(1), permit));
        done.send(()).unwrap();
    });
    let done = is_done.recv_timeout(Duration::from_secs(10));
    done.expect("accepts and closes while the other worker's table is locked");
    assert_eq!(locked.total, 58);
}

#[tokio::test]
async fn a_prefix_has_one_share_over_all_workers() {
    let [first, second] = workers(64);
    // Each of these is at its share, and larger at its worker than the crowd.
    let others = fill_each(&first, 2..=15, 4).await;
    let mut crowd = fill(&first, 1, 3).await;
    crowd.extend(fill(&second, 1, 3).await);
    for place in others.iter().chain(&crowd) {
        idle(place, 60_000);
    }
    idle(&crowd[4], 60_001);
    let other = enter(&first, 99).await;
    assert_eq!((given_up(&others), given_up(&crowd)), (vec![], vec![4]));
    drop((others, crowd, other));
    for worker in [first, second] {
        let open = worker.lock();
        assert_eq!((open.total, open.by_count.len()), (0, 0));
    }
}

#[tokio::test]
async fn many_give_up_at_once_over_all_workers() {
    let [first, second] = workers(1024);
    let mut crowd = fill(&first, 1, 480).await;
    crowd.extend(fill(&second, 1, 480).await);
    let moment = now() - 2000;
    for place in &crowd {
        place.state.active.store(moment, Ordering::Relaxed);
    }
    let longest = [7, 100, 479, 480, 700, 701, 959];
    for index in longest {
        idle(&crowd[index], 60_000);
    }
    let _other = enter(&second, 2).await;
    let given_up = given_up(&crowd);
    // Of the others, all active in one moment, no more than the rest.
    assert_eq!(given_up.len(), 960 / AT_ONCE);
    assert!(longest.iter().all(|index| given_up.contains(index)));
    assert_eq!(first.all.total(), 961 - 960 / AT_ONCE);
    drop(crowd);
    assert_eq!((first.lock().total, second.lock().total), (0, 1));
}

#[tokio::test]
async fn connections_of_a_prefix_at_other_workers_count_as_its_own() {
    let [first, second] = workers(64);
    let crowd = fill(&first, 1, 30).await;
    let others = fill(&second, 2, 29).await;
    let _one = enter(&first, 3).await;
    let newcomer = enter(&first, 2).await;
    assert!(given_up(&crowd).is_empty(), "busy, and about as many");
    let _another = enter(&second, 4).await;
    let given_up = given_up(&crowd).len() + given_up(&others).len();
    assert_eq!(given_up + usize::from(is_given_up(&newcomer)), 1);
}

#[tokio::test]
async fn at_the_limit_small_prefixes_of_other_workers_make_room() {
    let [first, second] = workers(1024);
    let all: Vec<_> = fill_each(&first, 1..=255, 4).await;
    let few = fill(&first, 0, 4).await;
    all.iter().for_each(|place| idle(place, 60_000));
    assert_eq!(first.all.total(), 1024);
    let newcomer = enter(&second, 0).await;
    assert_eq!((given_up(&all).len(), given_up(&few).len()), (1, 0));
    assert!(!is_given_up(&newcomer));
}

#[tokio::test]
async fn a_choice_closes_for_those_that_it_kept_from_choosing() {
    let [first, second] = workers(64);
    let crowd = fill(&first, 1, 62).await;
    crowd.iter().for_each(|place| idle(place, 60_000));
    let permits = [second.permit().await, second.permit().await];
    let _passed_over = {
        let _choosing = first.all.choosing.lock().unwrap();
        permits.map(|permit| second.enter(prefix(2), permit.unwrap()))
    };
    assert!(given_up(&crowd).is_empty());
    let _other = enter(&second, 3).await;
    assert_eq!(given_up(&crowd).len(), 3);
    let _next = enter(&second, 3).await;
    assert_eq!(given_up(&crowd).len(), 4);
}

#[tokio::test]
async fn a_choice_that_closes_none_leaves_nothing_to_make_good() {
    let [first, second] = workers(64);
    // Permits are scarce, though the tables are empty.
    let mut permits = Vec::new();
    for _ in 0..1004 {
        permits.push(first.permit().await);
    }
    {
        let _choosing = first.all.choosing.lock().unwrap();
        for permit in permits.drain(..4) {
            drop(second.enter(prefix(2), permit.unwrap()));
        }
    }
    drop(enter(&second, 3).await);
    assert_eq!(first.all.passed_over.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn more_workers_than_connections_of_a_share_find_the_crowd() {
    let workers: [_; 8] = workers(64);
    let mut crowd = Vec::new();
    for worker in &workers {
        crowd.extend(fill(worker, 1, 1).await);
    }
    let others = fill_each(&workers[0], 2..=14, 4).await;
    for place in others.iter().chain(&crowd) {
        idle(place, 60_000);
    }
    let _other = enter(&workers[0], 99).await;
    assert_eq!((given_up(&others).len(), given_up(&crowd).len()), (0, 1));
}

#[tokio::test]
async fn workers_that_choose_at_once_lose_no_count() {
    let workers: [_; 4] = workers(64);
    let busy = |worker: Arc<Connections>| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        thread::spawn(move || {
            let mut places = Vec::new();
            let mut closed = 0;
            for number in (0..7).cycle().take(2000) {
                let place = runtime.block_on(enter(&worker, number));
                idle(&place, 60_000);
                places.push(place);
                let before = places.len();
                places.retain(|place| !is_given_up(place));
                closed += before - places.len();
                if places.len() > 40 {
                    places.swap_remove(20);
                }
            }
            closed
        })
    };
    let threads: Vec<_> = workers.iter().cloned().map(busy).collect();
    let closed = threads.into_iter().map(|thread| thread.join().unwrap());
    assert!(closed.sum::<usize>() > 0);
    for worker in workers {
        let open = worker.lock();
        assert_eq!((open.total, open.by_count.len()), (0, 0));
        assert!(open.prefixes.is_empty());
    }
}
