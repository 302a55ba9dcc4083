use std::net::IpAddr;

use super::*;

fn prefix(number: u8) -> Prefix {
    IpAddr::from([192, 0, number, 1]).into()
}

fn connections(limit: usize) -> Arc<Connections> {
    Arc::new(Connections::new(limit, 1000, Arc::default()))
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
    let mut all = Vec::new();
    for number in 1..=16 {
        all.extend(fill(&connections, number, 4).await);
    }
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
