//! Measures floods of validations for random names and tokens: reads of the
//! catalog, memory, and what other clients notice.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::challenges::Orders;
use common::{LIMITS, Running, Scripted, Setup, alert, host, raw, start};
use rustls::ClientConfig;
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Validations of each flood.
const FLOOD: usize = 10_000;
/// Validations of a flood until memory is measured first.
const WARM_UP: usize = 1000;
/// Clients that flood at once: more than the 64 of a prefix that may wait.
const CLIENTS: usize = 256;
/// Absent names and tokens that the prefix may ask for per minute.
const BUDGET: usize = 60;
/// Growth of the process per validation, clients included. A remembered name would
/// take more.
const MAX_GROWTH: usize = 100;

/// The only test of this binary: the allocator's statistics cover the process.
#[tokio::test]
async fn random_names_and_tokens_cost_the_budget_and_nothing_else() {
    let flooded = Arc::new(Flooded::new().await);
    flood(&flooded, |flooded, number| async move {
        let name = format!("n{number}.random.example");
        let mut config = flooded.config.clone();
        config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let seen = alert(&flooded.running, &name, config).await;
        // Only a read tells that there is no such challenge.
        let read = seen.contains("NoApplicationProtocol");
        assert!(read || seen.contains("InternalError"), "{seen}");
        usize::from(read)
    })
    .await;
    // A server with a full budget: the reads of this flood are its own.
    let flooded = Arc::new(Flooded::new().await);
    flood(&flooded, |flooded, number| async move {
        let request = format!(
            "GET /.well-known/acme-challenge/{number:043} HTTP/1.1\r\nHost: a.example\r\n\r\n"
        );
        let answer = raw(flooded.running.http, request.as_bytes()).await;
        assert!(answer.starts_with(b"HTTP/1.1 308 "), "redirected as ever");
        0
    })
    .await;
}

/// Server under a flood, with a cached host and one that is not.
struct Flooded {
    running: Running,
    orders: Orders,
    config: ClientConfig,
}

impl Flooded {
    async fn new() -> Self {
        let (ca, orders) = (TestCa::new(), Orders::new().await);
        let pair = ca.issue(&["hot.example", "*.cold.example"], Key::P256);
        let names = ["hot.example", "a.cold.example", "b.cold.example"];
        let hosts = names.map(|name| host(name, &[(&pair, Key::P256)]));
        let mut setup = Setup::limits(Limits {
            absent_per_prefix: BUDGET,
            ..LIMITS
        });
        setup.challenges = Some(Arc::clone(&orders.served));
        let running = start(Scripted::new(hosts), &setup);
        let config = client::config(&ca);
        let flooded = Self {
            running,
            orders,
            config,
        };
        flooded.is_served("hot.example", NEAR).await;
        flooded
    }

    /// Fetches a page from this address.
    async fn is_served(&self, name: &str, from: Ipv4Addr) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let socket = socket.connect(self.running.address).await.unwrap();
        let visit = client::handshake(socket, name, self.config.clone());
        let visit = tokio::time::timeout(PATIENCE, visit).await;
        visit.expect("in time").unwrap();
    }

    /// Returns the bytes of the process once no connection is open.
    async fn allocated(&self) -> usize {
        let closed = async {
            while self.running.metrics.connections_open() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, closed).await.unwrap();
        epoch::advance().unwrap();
        stats::allocated::read().unwrap()
    }
}

/// Floods with `ask`, which returns how many reads it knows of, and checks the
/// bounds.
async fn flood<F>(flooded: &Arc<Flooded>, ask: fn(Arc<Flooded>, usize) -> F)
where
    F: Future<Output = usize> + Send + 'static,
{
    let (begun, known) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut warm = 0;
    for (numbers, cold) in [
        (0..WARM_UP, "a.cold.example"),
        (WARM_UP..FLOOD, "b.cold.example"),
    ] {
        warm = flooded.allocated().await;
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let numbers = numbers.clone().skip(client).step_by(CLIENTS);
            let (flooded, known) = (Arc::clone(flooded), Arc::clone(&known));
            clients.spawn(async move {
                for number in numbers {
                    let reads = ask(Arc::clone(&flooded), number).await;
                    known.fetch_add(reads, Ordering::Relaxed);
                }
            });
        }
        flooded.is_served("hot.example", NEAR).await;
        flooded.is_served(cold, FAR).await;
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    }
    let grown = flooded.allocated().await.saturating_sub(warm);
    let reads = flooded.orders.catalog.reads();
    let refilled = BUDGET * usize::try_from(begun.elapsed().as_secs() + 1).unwrap() / 60;
    println!("{reads} reads, {grown} bytes more, {:?}", begun.elapsed());
    assert!((BUDGET..=BUDGET + refilled).contains(&reads), "{reads}");
    let known = known.load(Ordering::Relaxed);
    assert!(known <= reads, "{known} of {reads}");
    assert!(grown <= MAX_GROWTH * (FLOOD - WARM_UP), "{grown}");
}

/// Address of the flood, and one of another network.
const NEAR: Ipv4Addr = Ipv4Addr::LOCALHOST;
const FAR: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

const PATIENCE: Duration = Duration::from_secs(10);
