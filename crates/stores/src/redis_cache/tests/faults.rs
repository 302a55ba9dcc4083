//! Servers that look up and follow while Redis suffers, held against what must
//! be true.

use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::task::JoinSet;

use super::*;

const HOSTS: u64 = 8;
const ROUNDS: usize = 3;

/// What was written last, and what a server was told of.
#[derive(Default)]
struct Contents([AtomicU64; HOSTS as usize]);

impl Contents {
    fn of(&self, host: u64) -> u64 {
        self.0[usize::try_from(host).unwrap()].load(Ordering::SeqCst)
    }

    fn raise(&self, host: u64, content: u64) {
        self.0[usize::try_from(host).unwrap()].fetch_max(content, Ordering::SeqCst);
    }

    fn least(&self) -> u64 {
        (0..HOSTS).map(|host| self.of(host)).min().unwrap()
    }
}

/// Each look-up gives at least what its server had been told of before,
/// whatever happens to Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_served_that_was_seen_replaced() {
    let mut bench = Bench::new();
    for host in 0..HOSTS {
        bench.put(&format!("h{host}.example"), host + 1).await;
    }
    let written = Arc::new(Contents::default());
    let over = Arc::new(AtomicBool::new(false));
    let (mut tasks, mut counts, mut told) = (JoinSet::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        let server = Arc::new(bench.started(&Waits::default()).await);
        server.follow().await;
        counts.push(server.counts());
        let seen = Arc::new(Contents::default());
        told.push(Arc::clone(&seen));
        let (written, all) = (Arc::clone(&written), Arc::clone(&seen));
        tasks.spawn(follow(Arc::clone(&server), written, all, Arc::clone(&over)));
        tasks.spawn(look(server, seen, Arc::clone(&over)));
    }
    let sealer = bench.sealer().await;
    tasks.spawn(write(sealer, written, told, Arc::clone(&over)));
    let watched = counts.clone();
    let suffered = tokio::task::spawn_blocking(move || suffer(&mut bench.redis, &watched));
    suffered.await.unwrap();
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for counts in counts {
        assert!(counts.reads(Read::Hit) > 0, "{counts:?}");
        assert!(counts.reads(Read::PassedOver) > 0, "{counts:?}");
    }
}

/// As its feed does: what was written before it asked, it has seen then.
async fn follow(
    server: Arc<Server>,
    written: Arc<Contents>,
    seen: Arc<Contents>,
    over: Arc<AtomicBool>,
) {
    while !over.load(Ordering::SeqCst) {
        let before: Vec<_> = (0..HOSTS).map(|host| written.of(host)).collect();
        server.follow().await;
        for (host, content) in (0..).zip(before) {
            seen.raise(host, content);
        }
        tokio::task::yield_now().await;
    }
}

async fn look(server: Arc<Server>, seen: Arc<Contents>, over: Arc<AtomicBool>) {
    let mut host = 0;
    while !over.load(Ordering::SeqCst) {
        host = (host + 1) % HOSTS;
        let least = seen.of(host);
        let found = server.find(&format!("h{host}.example")).await.unwrap();
        let key = &found.credentials[0].key;
        let content = u64::from_be_bytes(key.secret().expose().try_into().unwrap());
        assert!(
            content >= least,
            "host {host}: {content}, and {least} was seen"
        );
        tokio::task::yield_now().await;
    }
}

/// Never far ahead of those who follow, so that each change meets lookups.
async fn write(
    sealer: Sealer,
    written: Arc<Contents>,
    told: Vec<Arc<Contents>>,
    over: Arc<AtomicBool>,
) {
    let mut content = 100;
    while !over.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
        let lags = |seen: &Arc<Contents>| seen.least() + 3 < content;
        if content > 103 && told.iter().any(lags) {
            continue;
        }
        for host in 0..HOSTS {
            let put = Write::PutCredential(credential(host + 1, content), Precondition::Any);
            sealer.write(vec![put]).await.unwrap();
            written.raise(host, content);
        }
        content += 1;
    }
}

/// One thing after the other, each on a Redis that all servers use.
fn suffer(redis: &mut RedisServer, servers: &[Counts]) {
    for _ in 0..ROUNDS {
        for step in 0..8 {
            servers.iter().for_each(used);
            match step {
                0 => _ = redis.cli(&["save"]),
                1 => _ = redis.cli(&["script", "flush"]),
                2 => _ = redis.cli(&["client", "kill", "type", "normal", "skipme", "yes"]),
                3 => {
                    redis.pause();
                    std::thread::sleep(Duration::from_millis(100));
                    redis.resume();
                }
                // As it was saved, some steps ago.
                4 => redis.restart(),
                5 => {
                    for key in redis.cli(&["keys", "sekisho:*:c:*"]).lines() {
                        redis.cli(&["del", key]);
                    }
                }
                6 => {
                    for key in redis.cli(&["keys", "sekisho:*:state"]).lines() {
                        redis.cli(&["del", key]);
                    }
                }
                _ => _ = redis.cli(&["flushall"]),
            }
        }
    }
    servers.iter().for_each(used);
}

/// Waits for a hit from now on.
fn used(server: &Counts) {
    let (before, begun) = (server.reads(Read::Hit), Instant::now());
    while server.reads(Read::Hit) == before {
        assert!(begun.elapsed() < Duration::from_secs(60), "{server:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
