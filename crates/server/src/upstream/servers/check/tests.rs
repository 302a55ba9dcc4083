use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;
use crate::observe::metrics::Metrics;
use crate::site::{Address, Scheme, UpstreamOptions, UpstreamServer};
use crate::upstream::servers::{Background, Servers};

struct Fixture {
    servers: Servers,
    host: HostName,
    tenant: Tenant,
    /// Checks that were sent, and what they find.
    sent: Arc<AtomicUsize>,
    is_healthy: Arc<AtomicBool>,
}

impl Fixture {
    fn new() -> Self {
        let (servers, background) = Servers::new(Arc::new(Metrics::default()), Vec::new());
        let sent = Arc::new(AtomicUsize::new(0));
        let is_healthy = Arc::new(AtomicBool::new(true));
        let Background { checking, .. } = background;
        let (count, finds) = (Arc::clone(&sent), Arc::clone(&is_healthy));
        tokio::spawn(checking.run_with(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            let found = finds.load(Ordering::SeqCst);
            async move { Some(if found { Ok(()) } else { Err("sick".into()) }) }
        }));
        Self {
            servers,
            host: HostName::parse("a.example").unwrap(),
            tenant: Tenant::default(),
            sent,
            is_healthy,
        }
    }

    /// Sends a request; returns the index of its server.
    fn request(&self, upstream: &Arc<Upstream>) -> usize {
        self.request_of(&self.tenant, upstream)
    }

    fn request_of(&self, tenant: &Tenant, upstream: &Arc<Upstream>) -> usize {
        let by = Affinity {
            client: [192, 0, 2, 1].into(),
            cookie: None,
            host: &self.host,
            tenant,
            now: Instant::now(),
        };
        self.servers.choose(upstream, &by, &[]).unwrap().index
    }

    fn sent(&self) -> usize {
        self.sent.swap(0, Ordering::SeqCst)
    }

    fn running(&self, upstream: &Arc<Upstream>) -> usize {
        let used = self.servers.used(upstream, 0);
        let server = self.servers.server(&used, &upstream.servers[0].address);
        server.common.checks.running.used()
    }
}

fn upstream(hosts: &[String], path: &str) -> Arc<Upstream> {
    let server = |host: &String| UpstreamServer {
        address: Address::Tcp {
            host: (&**host).into(),
            port: 80,
        },
        weight: 1,
    };
    Arc::new(Upstream {
        servers: hosts.iter().map(server).collect(),
        scheme: Scheme::Http,
        is_bound: true,
        options: Some(Box::new(UpstreamOptions {
            check: Some(ActiveCheck {
                path: path.into(),
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(1),
                status: 200..=299,
            }),
            ..UpstreamOptions::of_scheme(Scheme::Http).clone()
        })),
    })
}

fn one(path: &str) -> Arc<Upstream> {
    upstream(&["10.0.0.1".into()], path)
}

/// Lets tasks run until this long from now, a little after what is due then.
async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds) + Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn sites_with_one_check_share_it() {
    let fixture = Fixture::new();
    fixture.request(&one("/health"));
    fixture.request(&one("/health"));
    pass(0).await;
    assert_eq!(fixture.sent(), 1);
    fixture.request(&one("/other"));
    pass(0).await;
    assert_eq!(fixture.sent(), 1);
    assert_eq!(fixture.running(&one("/health")), 2);
}

#[tokio::test(start_paused = true)]
async fn tenants_with_equal_checks_of_one_server_share_one() {
    let fixture = Fixture::new();
    for n in 0..1000 {
        let tenant = Tenant::parse(&format!("tenant-{n}")).unwrap();
        fixture.request_of(&tenant, &one("/health"));
    }
    pass(0).await;
    assert_eq!(fixture.sent(), 1);
    assert_eq!(fixture.running(&one("/health")), 1);
    fixture.is_healthy.store(false, Ordering::SeqCst);
    pass(20).await;
    let server = |tenant| {
        let upstream = one("/health");
        let used = fixture.servers.used(&upstream, tenant);
        fixture.servers.server(&used, &upstream.servers[0].address)
    };
    // Each learns of it.
    for n in [0, 1, 999] {
        let tenant = Tenant::parse(&format!("tenant-{n}")).unwrap();
        let hash = std::hash::BuildHasher::hash_one(&server(1).common.hasher, &tenant);
        let known = server(hash);
        let known = lock(&known.checked.0);
        let check = known.check.as_ref().unwrap();
        assert!(check.is_down.load(Ordering::Relaxed), "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_runs_while_it_is_used_and_a_minute_longer() {
    let fixture = Fixture::new();
    let upstream = one("/health");
    fixture.request(&upstream);
    let begun = Instant::now();
    pass(50).await;
    assert_eq!(fixture.sent(), 6);
    fixture.request(&upstream);
    pass(120).await;
    assert_eq!(fixture.running(&upstream), 0, "{:?}", begun.elapsed());
    fixture.sent();
    fixture.request(&upstream);
    pass(0).await;
    assert_eq!(fixture.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_failures_take_a_server_out_and_one_success_brings_it_back() {
    let fixture = Fixture::new();
    let checked = upstream(&["10.0.0.1".into(), "10.0.0.2".into()], "/health");
    let all = |fixture: &Fixture| -> Vec<_> {
        let mut chosen: Vec<_> = (0..50).map(|_| fixture.request(&checked)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    };
    // The second server is checked as well: its check starts healthy.
    assert_eq!(all(&fixture), [0, 1]);
    pass(1).await;
    fixture.is_healthy.store(false, Ordering::SeqCst);
    pass(10).await;
    assert_eq!(all(&fixture), [0, 1]);
    pass(10).await;
    // Both are down: one is asked all the same.
    assert_eq!(all(&fixture).len(), 1);
    fixture.is_healthy.store(true, Ordering::SeqCst);
    pass(10).await;
    assert_eq!(all(&fixture), [0, 1]);
}

/// Asks `count` servers, each with a check of its own.
fn ask_many(fixture: &Fixture, tenant: &Tenant, net: u8, count: usize) {
    for n in 0..count {
        let host = format!("10.{net}.{}.{}", n / 256, n % 256);
        fixture.request_of(tenant, &upstream(&[host], "/"));
    }
}

#[tokio::test(start_paused = true)]
async fn checks_are_bounded_and_no_tenant_takes_all() {
    let fixture = Fixture::new();
    ask_many(&fixture, &fixture.tenant, 1, MOST + 10);
    pass(0).await;
    assert_eq!(fixture.sent(), MOST / 2);
    let other = Tenant::parse("other").unwrap();
    ask_many(&fixture, &other, 2, MOST);
    pass(0).await;
    assert_eq!(fixture.sent(), MOST / 4);
    for n in 3..100 {
        let tenant = Tenant::parse(&format!("tenant-{n}")).unwrap();
        ask_many(&fixture, &tenant, n, 4);
    }
    pass(0).await;
    let rest = fixture.sent();
    assert!((1..=MOST / 4).contains(&rest), "{rest}");
    pass(120).await;
    fixture.sent();
    fixture.request(&one("/"));
    pass(0).await;
    assert_eq!(fixture.sent(), 1);
}
