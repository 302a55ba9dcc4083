use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use sekisho_certs::Catalog;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_testkit::Memory;

use super::*;

const NOW: i64 = 1_800_000_000;
const CA: &str = "internal";

/// Catalog, its sealer, and the time of all servers.
struct Shared {
    sealer: Sealer,
    clock: Clock,
    now: Arc<AtomicI64>,
}

impl Shared {
    async fn new() -> Self {
        let now = Arc::new(AtomicI64::new(NOW * 1000));
        let clock = Clock::Manual(Arc::clone(&now));
        let catalog: Arc<dyn Catalog> = Arc::new(Memory::new(clock.clone()));
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        let sealer = Sealer::create(catalog, ring).await.unwrap();
        Self { sealer, clock, now }
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.sealer.clone(), self.clock.clone())
    }

    fn advance(&self, seconds: i64) {
        self.now.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// How many buckets are stored.
    async fn stored(&self) -> usize {
        let kind = DocumentKind::ACME_QUOTA;
        let catalog = self.sealer.catalog();
        catalog.list_documents(&kind, None, 99).await.unwrap().len()
    }
}

/// Limit of `count` tokens, of which one comes back each minute.
fn charge(key: &str, count: u32) -> Charge {
    Charge {
        key: key.into(),
        limit: Limit::new(count, count * 60).unwrap(),
    }
}

async fn take(ledger: &Ledger, charges: &[Charge]) -> Result<(), RetryAt> {
    ledger.take(CA, charges, Share::Whole).await.unwrap()
}

/// Takes what is left of a limit, at most `most`. Returns how much that was.
async fn take_left(ledger: &Ledger, charge: &Charge, most: u32) -> u32 {
    let charges = std::slice::from_ref(charge);
    let mut taken = 0;
    while taken < most && take(ledger, charges).await.is_ok() {
        taken += 1;
    }
    taken
}

#[tokio::test]
async fn all_are_taken_or_none() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let head = shared.sealer.catalog().head().await.unwrap();
    let [many, few, one] = [charge("many", 9), charge("few", 2), charge("one", 1)];
    let both = [many.clone(), few.clone()];
    assert_eq!(take(&ledger, &both).await, Ok(()));
    assert_eq!(take(&ledger, &both).await, Ok(()));
    assert_eq!(take(&ledger, &both).await, Err(RetryAt(NOW + 60)));
    // The answer is the latest of those that refuse.
    assert_eq!(take(&ledger, std::slice::from_ref(&one)).await, Ok(()));
    ledger
        .close(CA, std::slice::from_ref(&one), NOW + 500)
        .await
        .unwrap();
    let all = [many.clone(), few.clone(), one];
    assert_eq!(take(&ledger, &all).await, Err(RetryAt(NOW + 500)));
    // Refusals took nothing.
    assert_eq!(take_left(&ledger, &many, 99).await, 7);
    shared.advance(60);
    assert_eq!(take(&ledger, &[few]).await, Ok(()));
    assert_eq!(shared.sealer.catalog().head().await.unwrap(), head);
}

#[tokio::test]
async fn a_key_counts_once_and_per_ca() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let twice = [charge("key", 1), charge("key", 1)];
    assert_eq!(take(&ledger, &twice).await, Ok(()));
    assert_eq!(take(&ledger, &twice).await, Err(RetryAt(NOW + 60)));
    let other = ledger.take("other", &twice, Share::Whole).await.unwrap();
    assert_eq!(other, Ok(()));
}

#[tokio::test]
async fn the_reserve_is_left_to_first_certificates() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let limit = [charge("orders", 10)];
    for _ in 0..9 {
        let taken = ledger.take(CA, &limit, Share::Unreserved).await.unwrap();
        assert_eq!(taken, Ok(()));
    }
    let refused = ledger.take(CA, &limit, Share::Unreserved).await.unwrap();
    assert_eq!(refused, Err(RetryAt(NOW + 60)));
    assert_eq!(take(&ledger, &limit).await, Ok(()));
}

#[tokio::test]
async fn a_bucket_is_gone_once_it_is_full() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let limit = charge("key", 5);
    assert_eq!(take_left(&ledger, &limit, 3).await, 3);
    assert_eq!(shared.stored().await, 1);
    shared.advance(3 * 60);
    assert_eq!(shared.stored().await, 1);
    shared.advance(MARGIN + 1);
    assert_eq!(shared.stored().await, 0);
    assert_eq!(take_left(&ledger, &limit, 9).await, 5);
    assert_eq!(take_left(&ledger, &limit, 9).await, 0);
}

#[tokio::test]
async fn what_was_not_used_is_given_back() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let limits = [charge("one", 1), charge("two", 2)];
    assert_eq!(take(&ledger, &limits).await, Ok(()));
    ledger.give_back(CA, &limits).await.unwrap();
    assert_eq!(take(&ledger, &limits).await, Ok(()));
    assert_eq!(take(&ledger, &limits).await, Err(RetryAt(NOW + 60)));
    // A full bucket takes no more, and is not written.
    let full = [charge("full", 1)];
    ledger.give_back(CA, &full).await.unwrap();
    assert_eq!(shared.stored().await, 2);
    assert_eq!(take_left(&ledger, &full[0], 9).await, 1);
}

#[tokio::test]
async fn failures_count_on_an_empty_bucket_and_room_is_only_looked_at() {
    let shared = Shared::new().await;
    let ledger = shared.ledger();
    let failures = [charge("failed/a.example", 2)];
    let room = async || ledger.has_room(CA, &failures, Share::Whole).await.unwrap();
    for _ in 0..3 {
        assert_eq!(room().await, Ok(()));
    }
    assert_eq!(shared.stored().await, 0);
    for _ in 0..2 {
        ledger.charge(CA, &failures[0]).await.unwrap();
    }
    assert_eq!(room().await, Err(RetryAt(NOW + 60)));
    shared.advance(30);
    // After one more failure the half of a token is gone, too.
    ledger.charge(CA, &failures[0]).await.unwrap();
    assert_eq!(room().await, Err(RetryAt(NOW + 90)));
    shared.advance(60);
    assert_eq!(room().await, Ok(()));
}

#[tokio::test]
async fn a_429_closes_buckets_for_every_server() {
    let shared = Shared::new().await;
    let (one, other) = (shared.ledger(), shared.ledger());
    let closed = [charge("orders", 300), charge("domain/a.example", 50)];
    one.close(CA, &closed, NOW + 3600).await.unwrap();
    for charge in &closed {
        let refused = take(&other, std::slice::from_ref(charge)).await;
        assert_eq!(refused, Err(RetryAt(NOW + 3600)));
    }
    // An earlier end opens nothing.
    other.close(CA, &closed, NOW + 5).await.unwrap();
    shared.advance(3599);
    assert_eq!(take(&other, &closed).await, Err(RetryAt(NOW + 3600)));
    shared.advance(1);
    assert_eq!(take(&other, &closed).await, Ok(()));
    assert_eq!(take(&one, &closed).await, Err(RetryAt(NOW + 3660)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_token_is_lost_or_taken_twice() {
    let shared = Shared::new().await;
    let ledgers = [Arc::new(shared.ledger()), Arc::new(shared.ledger())];
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..60 {
        let ledger = Arc::clone(&ledgers[task % 2]);
        tasks.spawn(async move { take(&ledger, &[charge("orders", 40)]).await });
    }
    let taken = tasks.join_all().await;
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 40);
    // The last token is back with the end of the period, not before.
    shared.advance(40 * 60 - 1);
    let orders = charge("orders", 40);
    let left = take_left(&ledgers[0], &orders, 99).await;
    assert_eq!(left, 39);
}

/// Another server takes between the read and the write.
#[tokio::test(start_paused = true)]
async fn a_lost_race_is_run_again() {
    let shared = Shared::new().await;
    let (one, other) = (shared.ledger(), shared.ledger());
    let limits = [charge("key", 3)];
    // With and without a bucket that is stored.
    for left in [1, 0] {
        let runs = Cell::new(0);
        let taken = one.change(CA, &limits, |buckets, now_ms| {
            runs.set(runs.get() + 1);
            if runs.get() == 1 {
                elsewhere(&other, &limits);
            }
            take_each(buckets, now_ms, Share::Whole)
        });
        let expected = if left == 1 {
            Ok(())
        } else {
            Err(RetryAt(NOW + 60))
        };
        assert_eq!(taken.await.unwrap(), expected);
        assert_eq!(runs.get(), 2);
    }
    assert_eq!(take_left(&one, &limits[0], 9).await, 0);
}

#[tokio::test(start_paused = true)]
async fn races_are_lost_so_often_and_no_more() {
    let shared = Shared::new().await;
    let (one, other) = (shared.ledger(), shared.ledger());
    let limits = [charge("key", 99)];
    let runs = Cell::new(0);
    let taken = one.change(CA, &limits, |buckets, now_ms| {
        runs.set(runs.get() + 1);
        elsewhere(&other, &limits);
        take_each(buckets, now_ms, Share::Whole)
    });
    let error = taken.await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(runs.get(), MAX_ATTEMPTS);
    assert_eq!(take_left(&one, &limits[0], 999).await, 89);
}

#[tokio::test]
async fn a_bucket_that_is_none_is_an_error() {
    let shared = Shared::new().await;
    let id = DocumentId::new(DocumentKind::ACME_QUOTA, format!("{CA}/key"));
    let document = Document::new(id, Secret::new(b"seven".to_vec()));
    let put = Write::PutDocument(document, Precondition::Any);
    shared.sealer.write(vec![put]).await.unwrap();
    let (ledger, limits) = (shared.ledger(), [charge("key", 1)]);
    let taken = ledger.take(CA, &limits, Share::Whole).await;
    let error = taken.unwrap_err().to_string();
    assert!(error.contains("acme-quota/internal/key"), "{error}");
}

/// Takes on a thread and a runtime of its own, from within a call.
fn elsewhere(ledger: &Ledger, charges: &[Charge]) {
    let call = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(take(ledger, charges))
    };
    let taken = thread::scope(|scope| scope.spawn(call).join());
    assert_eq!(taken.unwrap(), Ok(()));
}
