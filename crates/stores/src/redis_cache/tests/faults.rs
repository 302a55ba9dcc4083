//! Servers that look up and follow while Redis suffers and the catalog goes
//! back, compared with a model.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::task::JoinSet;

use super::*;

const ROUNDS: usize = 3;
/// Hosts whose credentials are replaced.
const REPLACED: [&str; 4] = ["a.example", "b.example", "c.example", "d.example"];
/// Written and removed.
const REMOVED: &str = "r.example";
const WILDCARD: &str = "*.w.example";
/// Written and removed below the wildcard, which it shadows.
const SHADOWING: &str = "e.w.example";
/// Answered by the wildcard.
const BELOW: &str = "f.w.example";
/// Writes ahead of a server that follows.
const MAX_LAG: u64 = 16;

/// Answer for a name: the number of its key; none if it is absent.
type Served = Option<u64>;

/// Answers of every name, from which step on.
#[derive(Default)]
struct History {
    steps: Mutex<BTreeMap<&'static str, Vec<(u64, Served)>>>,
    /// The last step that is in the catalog.
    committed: AtomicU64,
}

impl History {
    fn step(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Says what a write will change, lets it happen, and then counts it.
    async fn write(&self, changes: &[(&'static str, Served)], write: impl Future<Output = ()>) {
        let step = self.step() + 1;
        for (name, served) in changes {
            let mut steps = self.steps.lock().unwrap();
            steps.entry(name).or_default().push((step, *served));
        }
        write.await;
        self.committed.store(step, Ordering::SeqCst);
    }

    fn now(&self) -> Vec<(&'static str, Served)> {
        let steps = self.steps.lock().unwrap();
        let last = |(name, steps): (&&'static str, &Vec<(u64, Served)>)| {
            (*name, steps.last().expect("it was written").1)
        };
        steps.iter().map(last).collect()
    }

    /// Tells whether a name had that answer at a step, or got it later.
    fn allows(&self, name: &str, seen: u64, served: Served) -> bool {
        let steps = self.steps.lock().unwrap();
        let steps = &steps[name];
        let at = steps.iter().rposition(|(step, _)| *step <= seen);
        steps[at.unwrap_or(0)..]
            .iter()
            .any(|(_, one)| *one == served)
    }
}

/// Each lookup gives at least what its server had been told of before,
/// whatever happens to Redis and the catalog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_served_that_was_seen_replaced() {
    let mut bench = Bench::new();
    let history = Arc::new(History::default());
    let sealer = bench.sealer().await;
    let writer = Writer::new(&bench, sealer, &history);
    writer.begin().await;
    let over = Arc::new(AtomicBool::new(false));
    let (mut tasks, mut counts, mut seen) = (JoinSet::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        let server = Arc::new(bench.started(&Waits::default()).await);
        server.follow().await;
        counts.push(server.counts());
        let step = Arc::new(AtomicU64::new(history.step()));
        seen.push(Arc::clone(&step));
        let (history, over) = (Arc::clone(&history), Arc::clone(&over));
        let following = follow(server.clone(), history.clone(), step.clone(), over.clone());
        tasks.spawn(following);
        tasks.spawn(look(server, history, step, over));
    }
    let rolled_back = Arc::clone(&writer.rolled_back);
    tasks.spawn(writer.run(seen, Arc::clone(&over)));
    let watched = counts.clone();
    let suffered = tokio::task::spawn_blocking(move || suffer(&mut bench.redis, &watched));
    suffered.await.unwrap();
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for counts in counts {
        assert!(counts.hits.get() > 0, "{counts:?}");
        assert!(counts.passed_over.get() > 0, "{counts:?}");
    }
    assert!(rolled_back.load(Ordering::SeqCst) > 2);
}

/// Follows the log. What was written before it asked, the server has seen then.
async fn follow(
    server: Arc<Server>,
    history: Arc<History>,
    seen: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
) {
    while !over.load(Ordering::SeqCst) {
        let step = history.step();
        server.follow().await;
        seen.store(step, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
}

async fn look(
    server: Arc<Server>,
    history: Arc<History>,
    seen: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
) {
    let names = REPLACED.into_iter().chain([REMOVED, SHADOWING, BELOW]);
    for name in names.cycle() {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let least = seen.load(Ordering::SeqCst);
        match server.answer(name).await {
            Ok(answer) => {
                let served = answer.found.map(|found| {
                    let key = &found.credentials[0].key;
                    u64::from_be_bytes(key.secret().expose().try_into().unwrap())
                });
                let allowed = history.allows(name, least, served);
                assert!(allowed, "{name}: {served:?}, and step {least} was seen");
            }
            // The catalog went back, and this server has not followed yet.
            Err(error) => assert!(error.to_string().contains("older state"), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

struct Writer {
    memory: Arc<Memory>,
    sealer: Sealer,
    history: Arc<History>,
    /// How often the catalog went back to an earlier state.
    rolled_back: Arc<AtomicU64>,
    content: AtomicU64,
}

impl Writer {
    fn new(bench: &Bench, sealer: Sealer, history: &Arc<History>) -> Self {
        Self {
            memory: Arc::clone(&bench.memory),
            sealer,
            history: Arc::clone(history),
            rolled_back: Arc::default(),
            content: AtomicU64::new(100),
        }
    }

    /// Writes everything once, but the host that is written and removed.
    async fn begin(&self) {
        for name in REPLACED {
            self.put(name, &[name]).await;
        }
        self.put(WILDCARD, &[BELOW, SHADOWING]).await;
        self.history.write(&[(REMOVED, None)], async {}).await;
    }

    /// Stores a host with a new key, which answers these names.
    async fn put(&self, pattern: &str, names: &[&'static str]) {
        let content = self.content.fetch_add(1, Ordering::SeqCst);
        let number = 1 + self.number_of(pattern);
        let host = record(pattern, &[(KeyType::Ecdsa, CredentialId::from_u64(number))]);
        let put = Write::PutCredential(credential(number, content), Precondition::Any);
        let served: Vec<_> = names.iter().map(|name| (*name, Some(content))).collect();
        let write = async { _ = self.sealer.write(vec![put, put_host(host)]).await.unwrap() };
        self.history.write(&served, write).await;
    }

    fn number_of(&self, name: &str) -> u64 {
        let all = [&REPLACED[..], &[REMOVED, SHADOWING, WILDCARD]].concat();
        all.iter().position(|one| *one == name).unwrap() as u64
    }

    async fn remove(&self, name: &'static str, served: Served) {
        let remove = vec![Write::RemoveHost(pattern(name), Precondition::Any)];
        let write = async { _ = self.sealer.write(remove).await.unwrap() };
        self.history.write(&[(name, served)], write).await;
    }

    fn served(&self, wanted: &str) -> Served {
        let now = self.history.now();
        now.into_iter().find(|(name, _)| *name == wanted).unwrap().1
    }

    /// Never far ahead of those who follow, so that each change meets lookups.
    async fn run(self, seen: Vec<Arc<AtomicU64>>, over: Arc<AtomicBool>) {
        let (mut saved, mut round) = (None, 0_u32);
        while !over.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
            let step = self.history.step();
            if seen
                .iter()
                .any(|seen| seen.load(Ordering::SeqCst) + MAX_LAG < step)
            {
                continue;
            }
            round += 1;
            match round % 8 {
                0 => self.put(REMOVED, &[REMOVED]).await,
                1 => self.remove(REMOVED, None).await,
                2 => self.put(SHADOWING, &[SHADOWING]).await,
                3 => self.remove(SHADOWING, self.served(BELOW)).await,
                5 => self.put(WILDCARD, &[BELOW, SHADOWING]).await,
                6 if round % 16 == 6 => {
                    saved = Some((self.memory.saved(), self.history.now()));
                }
                7 if round % 32 == 31 => {
                    if let Some((restore, before)) = saved.take() {
                        self.history.write(&before, async { restore() }).await;
                        self.rolled_back.fetch_add(1, Ordering::SeqCst);
                    }
                }
                _ => {}
            }
            let name = REPLACED[round as usize % REPLACED.len()];
            self.put(name, &[name]).await;
        }
    }
}

/// Breaks one thing after the other, each on a Redis that all servers use.
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
    let (before, begun) = (server.hits.get(), Instant::now());
    while server.hits.get() == before {
        assert!(begun.elapsed() < Duration::from_secs(60), "{server:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
