use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use tokio::time::advance;

use super::resolve::Unresolved;
use super::*;
use crate::observe::metrics::UpstreamResult;
use crate::site::{Balance, Scheme, UpstreamOptions, UpstreamServer, UpstreamTls};
use crate::upstream::connections::transport::Endpoint;

struct Fixture {
    servers: Servers,
    host: HostName,
    tenant: Tenant,
    metrics: Arc<Metrics>,
}

impl Fixture {
    fn new() -> Self {
        let metrics = Arc::new(Metrics::default());
        let (servers, _) = Servers::new(Arc::clone(&metrics), Vec::new());
        Self {
            servers,
            host: HostName::parse("a.example").unwrap(),
            tenant: Tenant::parse("acme").unwrap(),
            metrics,
        }
    }

    fn by<'a>(&'a self, client: &str, cookie: Option<u64>) -> Affinity<'a> {
        Affinity {
            client: client.parse().unwrap(),
            cookie,
            host: &self.host,
            tenant: &self.tenant,
            now: Instant::now(),
        }
    }

    fn choose(&self, upstream: &Arc<Upstream>, tried: &[usize]) -> Chosen {
        let by = self.by("192.0.2.1", None);
        self.servers.choose(upstream, &by, tried).unwrap()
    }

    /// Chooses for a host of another tenant.
    fn choose_of(&self, tenant: &str, upstream: &Arc<Upstream>) -> Chosen {
        let tenant = Tenant::parse(tenant).unwrap();
        let by = Affinity {
            tenant: &tenant,
            ..self.by("192.0.2.1", None)
        };
        self.servers.choose(upstream, &by, &[]).unwrap()
    }

    fn choose_for(&self, upstream: &Arc<Upstream>, client: &str, cookie: Option<u64>) -> usize {
        let by = self.by(client, cookie);
        self.servers.choose(upstream, &by, &[]).unwrap().index
    }

    /// Lets requests to one server fail until it is ejected.
    fn eject(&self, upstream: &Arc<Upstream>, index: usize) {
        let others: Vec<_> = (0..upstream.servers.len())
            .filter(|other| *other != index)
            .collect();
        for _ in 0..5 {
            let mut chosen = self.choose(upstream, &others);
            chosen.failed(UpstreamResult::Unreachable);
        }
    }

    fn chosen_of(&self, upstream: &Arc<Upstream>, requests: usize) -> HashSet<usize> {
        let chosen = |_| {
            let mut chosen = self.choose(upstream, &[]);
            chosen.answered(StatusCode::OK);
            chosen.index
        };
        (0..requests).map(chosen).collect()
    }
}

fn upstream(addresses: &[&str], options: UpstreamOptions) -> Arc<Upstream> {
    let server = |address: &&str| UpstreamServer {
        address: match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(Path::new(path).into()),
            None => {
                let (host, port) = address.rsplit_once(':').unwrap();
                let (host, port) = (host.into(), port.parse().unwrap());
                Address::Tcp { host, port }
            }
        },
        weight: 1,
    };
    Arc::new(Upstream {
        servers: addresses.iter().map(server).collect(),
        scheme: Scheme::Http,
        is_bound: true,
        options: Some(Box::new(options)),
    })
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn plain() -> UpstreamOptions {
    UpstreamOptions::of_scheme(Scheme::Http).clone()
}

fn three(balance: Balance) -> Arc<Upstream> {
    let addresses = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"];
    upstream(&addresses, UpstreamOptions { balance, ..plain() })
}

#[tokio::test(start_paused = true)]
async fn requests_go_where_fewer_are_in_flight() {
    let fixture = Fixture::new();
    let upstream = three(Balance::LeastInFlight);
    let chosen: Vec<_> = (0..300).map(|_| fixture.choose(&upstream, &[])).collect();
    for index in 0..3 {
        let count = chosen.iter().filter(|one| one.index == index).count();
        assert!((90..=110).contains(&count), "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_had_the_request_are_left_out() {
    let fixture = Fixture::new();
    let upstream = three(Balance::LeastInFlight);
    for _ in 0..100 {
        assert_eq!(fixture.choose(&upstream, &[0, 2]).index, 1);
    }
    let by = fixture.by("192.0.2.1", None);
    let none = fixture.servers.choose(&upstream, &by, &[0, 1, 2]);
    assert!(matches!(none, Err(Failure::Tried)));
}

#[tokio::test(start_paused = true)]
async fn sites_of_a_tenant_share_what_is_known_of_a_server() {
    let fixture = Fixture::new();
    fixture.eject(&three(Balance::LeastInFlight), 0);
    let other = upstream(&["10.0.0.1:80", "10.0.0.9:80"], plain());
    assert_eq!(fixture.chosen_of(&other, 100), HashSet::from([1]));
}

#[tokio::test(start_paused = true)]
async fn tenants_share_nothing_that_is_known_of_a_server() {
    let fixture = Fixture::new();
    let options = UpstreamOptions {
        connections: 1,
        ..plain()
    };
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80"], options);
    fixture.eject(&upstream, 0);
    let chosen: HashSet<_> = (0..100)
        .map(|_| {
            let mut chosen = fixture.choose_of("other", &upstream);
            chosen.answered(StatusCode::OK);
            chosen.index
        })
        .collect();
    assert_eq!(chosen.len(), 2);
    let own = fixture.choose(&upstream, &[0]);
    let _permit = own.permit(later()).await.unwrap();
    let others: Vec<_> = (0..2)
        .map(|_| fixture.choose_of("other", &upstream))
        .collect();
    assert!(others.iter().all(|it| it.permit_at_once().is_some()));
    while own.may_retry() {}
    assert!(others.iter().all(Chosen::may_retry));
}

#[tokio::test(start_paused = true)]
async fn hosts_of_the_operators_site_share_all_but_permits() {
    let fixture = Fixture::new();
    let options = UpstreamOptions {
        connections: 1,
        ..plain()
    };
    let mut site = Upstream::clone(&upstream(&["10.0.0.1:80", "10.0.0.2:80"], options));
    site.is_bound = false;
    let site = Arc::new(site);
    fixture.eject(&site, 0);
    let own = fixture.choose(&site, &[]);
    let other = fixture.choose_of("other", &site);
    assert_eq!((own.index, other.index), (1, 1));
    assert!(Arc::ptr_eq(&own.server, &other.server));
    let permits = (own.permit(later()).await, other.permit(later()).await);
    assert!(permits.0.is_ok() && permits.1.is_ok());
    assert!(other.permit_at_once().is_none());
}

#[tokio::test(start_paused = true)]
async fn tls_that_fails_ejects_for_equal_tls_alone() {
    let fixture = Fixture::new();
    let tls = |name: &str| UpstreamOptions {
        tls: Some(Arc::new(UpstreamTls {
            name: Some(name.into()),
            ..UpstreamTls::default()
        })),
        ..plain()
    };
    let addresses = ["10.0.0.1:443", "10.0.0.2:443"];
    fixture.eject(&upstream(&addresses, tls("wrong.example")), 0);
    let right = upstream(&addresses, tls("right.example"));
    assert_eq!(fixture.chosen_of(&right, 100).len(), 2);
    let same = upstream(&addresses, tls("wrong.example"));
    assert_eq!(fixture.chosen_of(&same, 100), HashSet::from([1]));
}

#[tokio::test(start_paused = true)]
async fn an_ejected_server_comes_back_with_one_success() {
    let fixture = Fixture::new();
    let upstream = three(Balance::LeastInFlight);
    fixture.eject(&upstream, 1);
    assert_eq!(fixture.chosen_of(&upstream, 100), HashSet::from([0, 2]));
    advance(Duration::from_secs(7)).await;
    // The first request that draws the server tries it, and the others do not.
    let held: Vec<_> = (0..100).map(|_| fixture.choose(&upstream, &[])).collect();
    let mut tries: Vec<_> = held.into_iter().filter(|one| one.index == 1).collect();
    assert_eq!(tries.len(), 1);
    tries[0].answered(StatusCode::OK);
    drop(tries);
    assert_eq!(fixture.chosen_of(&upstream, 100).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn if_all_are_ejected_the_first_to_come_back_is_tried() {
    let fixture = Fixture::new();
    let upstream = three(Balance::LeastInFlight);
    fixture.eject(&upstream, 2);
    advance(Duration::from_secs(3)).await;
    fixture.eject(&upstream, 0);
    fixture.eject(&upstream, 1);
    assert_eq!(fixture.choose(&upstream, &[]).index, 2);
    assert_ne!(fixture.choose(&upstream, &[2]).index, 2);
    assert_eq!(fixture.chosen_of(&upstream, 1), HashSet::from([2]));
    // That answered, and takes all requests now.
    assert_eq!(fixture.chosen_of(&upstream, 100), HashSet::from([2]));
}

#[tokio::test(start_paused = true)]
async fn a_client_keeps_its_server_until_that_is_ejected() {
    let fixture = Fixture::new();
    let upstream = three(Balance::ClientAddress);
    let keeps = |client: &str| fixture.choose_for(&upstream, client, None);
    let clients: Vec<_> = (0..60).map(|n| format!("192.0.2.{n}")).collect();
    let before: Vec<_> = clients.iter().map(|client| keeps(client)).collect();
    assert_eq!(before.iter().collect::<HashSet<_>>().len(), 3);
    fixture.eject(&upstream, before[0]);
    for (client, before_it) in clients.iter().zip(&before) {
        match *before_it == before[0] {
            true => assert_ne!(keeps(client), *before_it),
            false => assert_eq!(keeps(client), *before_it),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cookie_keeps_its_server_whoever_sends_it() {
    let fixture = Fixture::new();
    let upstream = three(Balance::Cookie("session".into()));
    let keeps = |client, cookie| fixture.choose_for(&upstream, client, Some(cookie));
    let servers: HashSet<_> = (0..60)
        .map(|n| {
            let cookie = rendezvous::mix(n);
            let server = keeps("192.0.2.1", cookie);
            assert_eq!(keeps("2001:db8::1", cookie), server);
            server
        })
        .collect();
    assert_eq!(servers.len(), 3);
    // Without the cookie, by requests in flight.
    assert_eq!(fixture.chosen_of(&upstream, 100).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_free_connection_comes_last() {
    let fixture = Fixture::new();
    let options = UpstreamOptions {
        connections: 1,
        ..plain()
    };
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80"], options);
    let first = fixture.choose(&upstream, &[1]);
    let _permit = first.permit(later()).await.unwrap();
    // More in flight, but with a free connection.
    let _held: Vec<_> = (0..5).map(|_| fixture.choose(&upstream, &[0])).collect();
    assert_eq!(fixture.chosen_of(&upstream, 50), HashSet::from([1]));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_connection_is_bounded() {
    let fixture = Fixture::new();
    let options = UpstreamOptions {
        connections: 1,
        waiting: 1,
        ..plain()
    };
    let upstream = upstream(&["10.0.0.1:80"], options);
    let first = fixture.choose(&upstream, &[]);
    let _permit = first.permit(later()).await.unwrap();
    let [second, third] = [(); 2].map(|()| fixture.choose(&upstream, &[]));
    let begun = Instant::now();
    let (second, third) = tokio::join!(second.permit(later()), third.permit(later()));
    assert!(matches!(second, Err(Failure::NoneFree)), "{second:?}");
    assert!(matches!(third, Err(Failure::TooManyWait)), "{third:?}");
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn servers_with_requests_in_flight_are_not_forgotten() {
    let fixture = Fixture::new();
    let address = |n: usize| format!("10.{}.{}.{}:80", n >> 16, n >> 8 & 255, n & 255);
    let one = |n: usize| upstream(&[&address(n)], plain());
    let of = |n: usize| fixture.choose_of(&format!("tenant-{n}"), &one(n));
    let held: Vec<_> = (0..100).map(of).collect();
    for n in 100..70_000 {
        of(n);
    }
    assert!(fixture.servers.servers.len() <= usize::try_from(SERVERS).unwrap());
    for (n, held) in held.iter().enumerate() {
        let again = of(n);
        assert!(Arc::ptr_eq(&again.server, &held.server), "{n}");
        assert_eq!(again.server.in_flight.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_servers_makes_none_of_anothers_be_forgotten() {
    let fixture = Fixture::new();
    let known = upstream(&["10.0.0.1:80", "10.0.0.2:80"], plain());
    fixture.eject(&known, 0);
    for n in 0..10_000 {
        let address = format!("10.1.{}.{}:80", n >> 8, n & 255);
        fixture.choose_of("other", &upstream(&[&address], plain()));
    }
    assert_eq!(fixture.servers.servers.len(), 1 + 4096);
    assert_eq!(fixture.chosen_of(&known, 100), HashSet::from([1]));
}

#[tokio::test(start_paused = true)]
async fn addresses_and_sockets_need_no_resolver() {
    let fixture = Fixture::new();
    let of = |address: &str| fixture.choose(&upstream(&[address], plain()), &[]);
    for (address, expected) in [
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("2001:db8::1:80", "[2001:db8::1]:80"),
    ] {
        let chosen = of(address);
        let endpoints = chosen.endpoints().await.unwrap();
        assert_eq!(endpoints, vec![Endpoint::Tcp(expected.parse().unwrap())]);
    }
    let chosen = of("unix:/run/app.sock");
    let path = Path::new("/run/app.sock");
    assert_eq!(
        chosen.endpoints().await,
        Ok(vec![Endpoint::Unix(path.into())])
    );
    // The resolver is gone: a name fails at once.
    let failed = of("app.example:80").endpoints().await.map(drop);
    assert!(matches!(failed, Err(Unresolved::Failed(_))), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_counted() {
    let fixture = Fixture::new();
    let upstream = three(Balance::LeastInFlight);
    for status in [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE] {
        fixture.choose(&upstream, &[]).answered(status);
    }
    for result in [UpstreamResult::Unreachable, UpstreamResult::NoAnswer] {
        fixture.choose(&upstream, &[]).failed(result);
    }
    drop(fixture.choose(&upstream, &[]));
    for result in [
        "answered",
        "unavailable",
        "unreachable",
        "no_answer",
        "abandoned",
    ] {
        assert_eq!(count(&fixture.metrics, result), 1, "{result}");
    }
}

/// Returns the value of a label of `upstream_requests`.
fn count(metrics: &Arc<Metrics>, outcome: &str) -> u64 {
    let mut registry = sekisho_certs::metrics::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let row = format!("upstream_requests_total{{outcome=\"{outcome}\"}} ");
    let found = text.lines().find_map(|line| line.strip_prefix(&row));
    found.unwrap().parse().unwrap()
}
