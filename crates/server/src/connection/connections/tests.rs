use std::net::IpAddr;

use tokio::time::advance;

use super::*;

fn prefix(number: u8) -> Prefix {
    IpAddr::from([192, 0, number, 1]).into()
}

fn connections(limit: usize) -> Arc<Connections> {
    let mut workers = Connections::of_workers(1, limit, 1000, Arc::default());
    workers.next().unwrap()
}

async fn try_enter(connections: &Arc<Connections>, number: u8) -> Option<ConnectionPermit> {
    try_enter_of(connections, prefix(number)).await
}

async fn try_enter_of(connections: &Arc<Connections>, prefix: Prefix) -> Option<ConnectionPermit> {
    let permit = connections.permit().await.unwrap();
    connections.enter(prefix, permit, Instant::now())
}

/// Opens a connection with a request under way from each of `count` networks: /56 of one
/// customer's /48.
async fn fill_networks(
    connections: &Arc<Connections>,
    customer: u16,
    count: u16,
) -> Vec<ConnectionPermit> {
    let mut permits = Vec::new();
    for number in 0..count {
        let entered = try_enter_of(connections, network(customer, number)).await;
        permits.push(entered.expect("room"));
    }
    for entered in &permits {
        establish(entered).begin();
    }
    permits
}

fn network(customer: u16, number: u16) -> Prefix {
    IpAddr::from([0x2001, 0xdb8, customer, number << 8, 0, 0, 0, 1]).into()
}

async fn enter(connections: &Arc<Connections>, number: u8) -> ConnectionPermit {
    let entered = try_enter(connections, number).await;
    entered.expect("room, or one to close")
}

async fn fill(connections: &Arc<Connections>, number: u8, count: usize) -> Vec<ConnectionPermit> {
    let mut permits = Vec::new();
    for _ in 0..count {
        permits.push(enter(connections, number).await);
    }
    permits
}

/// Ends the handshake of a connection, and returns where its requests are noted.
fn establish(entered: &ConnectionPermit) -> Arc<ConnTimeouts> {
    let timeouts = Arc::new(ConnTimeouts::default());
    timeouts.established(true);
    entered.activity().read_from(&timeouts);
    timeouts
}

async fn pass(millis: u64) {
    advance(Duration::from_millis(millis)).await;
}

fn given_up(permits: &[ConnectionPermit]) -> Vec<usize> {
    let given_up = |entered: &ConnectionPermit| entered.state.given_up.load(Ordering::Acquire);
    let permits = permits.iter().enumerate();
    let given_up = permits.filter(|(_, entered)| given_up(entered));
    given_up.map(|(index, _)| index).collect()
}

fn assert_empty(connections: &Connections) {
    let open = lock(&connections.table);
    assert_eq!((open.total, open.by_count.len()), (0, 0));
    assert!(open.prefixes.is_empty() && open.wider.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_up_before_the_limit() {
    let connections = connections(64);
    let permits = fill(&connections, 1, 64).await;
    pass(60_000).await;
    assert!(given_up(&permits).is_empty());
    let _one_more = enter(&connections, 2).await;
    assert_eq!(given_up(&permits).len(), 1, "and one at it");
    assert_eq!(lock(&connections.table).total, 64);
}

#[tokio::test(start_paused = true)]
async fn a_smaller_network_closes_the_longest_idle_of_the_largest() {
    let connections = connections(8);
    let mut largest_group = Vec::new();
    for _ in 0..6 {
        largest_group.push(enter(&connections, 1).await);
        pass(10).await;
    }
    let others = fill(&connections, 2, 2).await;
    // The first was active since, the second has a request under way.
    let timeouts = [&largest_group[0], &largest_group[1]].map(establish);
    timeouts[0].begin();
    timeouts[0].end();
    timeouts[1].begin();
    pass(2000).await;
    let mut newcomers = Vec::new();
    for closed in [vec![2], vec![2, 3]] {
        newcomers.push(enter(&connections, 3).await);
        assert_eq!(given_up(&largest_group), closed);
    }
    assert!(given_up(&others).is_empty());
    assert_eq!(lock(&connections.table).total, 8);
    drop((largest_group, others, newcomers));
    assert_empty(&connections);
}

#[tokio::test(start_paused = true)]
async fn a_smaller_network_closes_even_active_ones() {
    let connections = connections(8);
    let largest_group = fill(&connections, 1, 8).await;
    for entered in &largest_group {
        establish(entered).begin();
    }
    let _newcomer = enter(&connections, 2).await;
    assert_eq!(given_up(&largest_group).len(), 1, "however young");
    pass(60_000).await;
    let _newcomer = enter(&connections, 2).await;
    assert_eq!(given_up(&largest_group).len(), 2, "however old its request");
}

#[tokio::test(start_paused = true)]
async fn a_network_closes_its_own_after_a_second_without_a_request() {
    let connections = connections(4);
    let largest_group = fill(&connections, 1, 4).await;
    let timeouts: Vec<_> = largest_group.iter().map(establish).collect();
    pass(999).await;
    // HTTP/2: what is read between two requests is no request.
    timeouts[3].read();
    timeouts[3].in_head(false);
    assert!(try_enter(&connections, 1).await.is_none(), "too young");
    timeouts[0].begin();
    timeouts[1].begin();
    timeouts[1].end();
    pass(1).await;
    let mut newcomers = vec![enter(&connections, 1).await];
    newcomers.push(enter(&connections, 1).await);
    assert_eq!(given_up(&largest_group), [2, 3]);
    assert!(try_enter(&connections, 1).await.is_none(), "all are active");
    newcomers
        .iter()
        .for_each(|entered| establish(entered).begin());
    pass(5000).await;
    newcomers.push(enter(&connections, 1).await);
    assert_eq!(given_up(&largest_group), [1, 2, 3]);
    establish(&newcomers[2]).begin();
    pass(5000).await;
    assert!(try_enter(&connections, 1).await.is_none(), "a request each");
    timeouts[0].end();
    pass(1000).await;
    newcomers.push(enter(&connections, 1).await);
    assert_eq!(given_up(&largest_group), [0, 1, 2, 3]);
}

/// Networks of about one size would else close each other's active connections in turn.
#[tokio::test(start_paused = true)]
async fn a_network_with_about_as_many_closes_only_idle_ones() {
    let connections = connections(7);
    let largest_group = fill(&connections, 1, 4).await;
    let others = fill(&connections, 2, 3).await;
    assert!(try_enter(&connections, 2).await.is_none());
    pass(1000).await;
    let _newcomer = enter(&connections, 2).await;
    assert_eq!(
        (given_up(&largest_group).len(), given_up(&others).len()),
        (1, 0)
    );
    let _own_first = enter(&connections, 2).await;
    assert_eq!(
        (given_up(&largest_group).len(), given_up(&others).len()),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn networks_of_one_size_are_asked_in_turn() {
    let connections = connections(200);
    let mut permits = Vec::new();
    for number in 1..=200 {
        permits.push(enter(&connections, number).await);
    }
    // More busy ones than are asked at once.
    let busy: Vec<_> = permits[100..].iter().map(establish).collect();
    busy.iter().for_each(|timeouts| timeouts.begin());
    pass(1000).await;
    assert!(try_enter(&connections, 255).await.is_none());
    let mut newcomers = Vec::new();
    for closed in 1..=5 {
        newcomers.push(enter(&connections, 200 + closed).await);
        assert_eq!(given_up(&permits).len(), usize::from(closed));
    }
    assert!(given_up(&permits[100..]).is_empty());
}

#[tokio::test(start_paused = true)]
async fn networks_of_one_customer_keep_no_other_out() {
    let connections = connections(256);
    let largest_group = fill_networks(&connections, 1, 256).await;
    pass(60_000).await;
    let mut newcomers = Vec::new();
    for closed in 1..=15 {
        newcomers.push(enter(&connections, 1).await);
        assert_eq!(given_up(&largest_group).len(), closed);
    }
    newcomers
        .iter()
        .for_each(|entered| establish(entered).begin());
    // The customer's 241 count as 15.
    assert!(try_enter(&connections, 1).await.is_none());
    assert!(
        try_enter_of(&connections, network(1, 255)).await.is_none(),
        "the customer closes nobody else's"
    );
    drop(newcomers);
    let mut others = Vec::new();
    for customer in 2..242 {
        others.extend(fill_networks(&connections, customer, 1).await);
    }
    assert_eq!(given_up(&largest_group).len(), 240, "sixteen are left");
    assert!(
        try_enter_of(&connections, network(242, 0)).await.is_none(),
        "they count as one"
    );
    assert!(given_up(&others).is_empty());
    drop((largest_group, others));
    assert_empty(&connections);
}

#[tokio::test(start_paused = true)]
async fn a_network_with_a_few_is_no_crowd_beside_a_customer_with_many() {
    let connections = connections(64);
    let few = fill(&connections, 1, 3).await;
    few.iter().for_each(|entered| establish(entered).begin());
    let largest_group = fill_networks(&connections, 1, 61).await;
    largest_group[7].activity().0.requests.get().unwrap().end();
    pass(1000).await;
    let mut newcomers = vec![enter(&connections, 2).await];
    assert_eq!(given_up(&largest_group), [7], "the idle one");
    newcomers.push(enter(&connections, 3).await);
    assert_eq!(
        (given_up(&few).len(), given_up(&largest_group).len()),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn one_network_with_many_is_the_crowd_beside_many_networks() {
    let connections = connections(100);
    let largest_group = fill(&connections, 1, 10).await;
    let many = fill_networks(&connections, 1, 90).await;
    let mut newcomers = Vec::new();
    for closed in 1..=3 {
        newcomers.extend(try_enter_of(&connections, network(2, closed)).await);
        assert_eq!(given_up(&largest_group).len(), usize::from(closed));
    }
    assert!(given_up(&many).is_empty());
}

#[tokio::test(start_paused = true)]
async fn networks_of_one_customer_are_compared_by_themselves() {
    let connections = connections(35);
    let mut permits = fill_networks(&connections, 1, 34).await;
    permits.extend(fill_networks(&connections, 1, 1).await);
    let newcomer = try_enter_of(&connections, network(1, 34)).await;
    let newcomer = newcomer.expect("a network that holds two");
    establish(&newcomer).begin();
    let closed = given_up(&permits);
    assert!(closed == [0] || closed == [34], "{closed:?}");
    let one_more = try_enter_of(&connections, network(1, 35)).await;
    assert!(one_more.is_none(), "all hold one");
}

#[tokio::test(start_paused = true)]
async fn who_is_given_up_ends() {
    let connections = connections(1);
    let first = enter(&connections, 1).await;
    let stage = Stage::last(std::future::pending());
    let open = connections.metrics.connection_opened();
    let first = tokio::spawn(first.hold(stage, open));
    tokio::task::yield_now().await;
    pass(1000).await;
    let _second = enter(&connections, 2).await;
    first.await.unwrap();
    assert_eq!(lock(&connections.table).total, 1);
}

#[tokio::test(start_paused = true)]
async fn connections_that_have_ended_are_forgotten() {
    let connections = connections(64);
    let kept = enter(&connections, 1).await;
    for _ in 0..1000 {
        drop(enter(&connections, 1).await);
    }
    assert!(lock(&connections.table).prefixes[&prefix(1)].noted.len() < 64);
    drop(kept);
    assert_empty(&connections);
}

#[tokio::test(start_paused = true)]
async fn a_proxys_connections_count_for_their_clients() {
    let connections = connections(64);
    let permit = async || connections.permit().await.unwrap();
    let mut unnamed = Vec::new();
    for _ in 0..64 {
        unnamed.push(connections.enter_unnamed(permit().await));
    }
    assert_eq!(lock(&connections.table).total, 64);
    assert!(lock(&connections.table).prefixes.is_empty());
    let named = unnamed.drain(..40).map(|one| one.enter(prefix(1)).unwrap());
    let largest_group: Vec<_> = named.collect();
    assert_eq!(lock(&connections.table).total, 64);
    let other = connections.enter_unnamed(permit().await);
    assert!(
        given_up(&largest_group).is_empty(),
        "its client is not known"
    );
    let other = other.enter(prefix(2)).unwrap();
    assert_eq!(given_up(&largest_group).len(), 1);
    drop((largest_group, unnamed, other));
    assert_empty(&connections);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_a_proxy_names_its_client_within_a_second() {
    let connections = connections(2);
    let now = Instant::now();
    let mut deadlines = Vec::new();
    let mut unnamed = Vec::new();
    for _ in 0..3 {
        let permit = connections.permit().await.unwrap();
        unnamed.push(connections.enter_unnamed(permit));
        deadlines.push(unnamed.last().unwrap().deadline(now));
    }
    assert_eq!(deadlines, [None, None, Some(now + EXTRA_WAIT)]);
    let last = unnamed.pop().unwrap();
    assert!(last.enter(prefix(1)).is_none(), "nobody can make room");
    assert_eq!(lock(&connections.table).total, 2);
}

#[tokio::test(start_paused = true)]
async fn workers_have_parts_of_the_limit() {
    let limits = |workers, limit| -> Vec<_> {
        let workers = Connections::of_workers(workers, limit, 2, Arc::default());
        let permits = |worker: &Connections| worker.permits.available_permits();
        workers.map(|one| (one.limit, permits(&one))).collect()
    };
    assert_eq!(limits(3, 64), [(22, 24), (21, 23), (21, 23)]);
    assert_eq!(limits(2, 1), [(1, 3), (1, 3)], "each accepts");
}
