use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::Instant;

use super::*;
use crate::disk_cache::tests::switch::Switch;
use sekisho_certs::seal::MasterKey;
use sekisho_certs::store::{Catalog, ChangeLog, LogId, LogPosition, Precondition, ReadAt};
use sekisho_certs::{ChallengeKind, Challenges, Clock, KeyAuthorization};
use sekisho_testkit::Memory;
use sekisho_testkit::contract::fixture::{put_host, record_of};

/// Answers as the test says after a while, and counts calls.
#[derive(Debug, Default)]
struct Scripted {
    calls: AtomicU32,
    says: Mutex<Option<StoreError>>,
    takes: Mutex<Duration>,
}

impl Scripted {
    fn say(&self, error: Option<StoreError>) {
        *self.says.lock().unwrap() = error;
    }

    fn take(&self, time: Duration) {
        *self.takes.lock().unwrap() = time;
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Store for Scripted {
    fn find<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let takes = *self.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            let says = self.says.lock().unwrap().clone();
            says.map_or(Ok(Answer::absent()), Err)
        })
    }
}

fn tiers() -> (Arc<Scripted>, Tiers) {
    let store = Arc::new(Scripted::default());
    (Arc::clone(&store), Tiers::plain(store))
}

fn name() -> HostName {
    HostName::parse("a.example").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline() {
    let (store, tiers) = tiers();
    store.take(Duration::from_secs(3600));
    let begun = Instant::now();
    let error = tiers.find(&name()).await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(after) if after == STORE_TIMEOUT));
    assert_eq!(begun.elapsed(), STORE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_again_and_again_is_left_alone() {
    let (store, tiers) = tiers();
    store.say(Some(StoreError::Unavailable("broken".into())));
    for _ in 0..FAILURES + 10 {
        tiers.find(&name()).await.unwrap_err();
    }
    assert_eq!(store.calls(), FAILURES);
    store.say(None);
    tokio::time::advance(BREAKER_DELAYS.min).await;
    tiers.find(&name()).await.unwrap();
    tiers.find(&name()).await.unwrap();
    assert_eq!(store.calls(), FAILURES + 2);
}

#[tokio::test(start_paused = true)]
async fn answers_that_blame_the_data_do_not_open_the_breaker() {
    let (store, tiers) = tiers();
    for _ in 0..FAILURES {
        for error in [
            StoreError::Unavailable("broken".into()),
            StoreError::Corrupt("bad pair".into()),
            StoreError::Overloaded,
            StoreError::Failed("one host".into()),
        ] {
            store.say(Some(error));
            tiers.find(&name()).await.unwrap_err();
        }
    }
    assert_eq!(store.calls(), 4 * FAILURES);
}

#[test]
fn an_answer_from_an_older_state_is_told_by_its_number() {
    let at = |log, number| LogPosition {
        log: LogId([log; 16]),
        number,
        mark: 0,
    };
    let name = name();
    let mut question = tiers().1.note(&name);
    for (seen, read, is_older) in [
        (None, Some(at(1, 4)), false),
        (Some(at(1, 5)), None, false),
        (Some(at(1, 5)), Some(at(1, 4)), true),
        (Some(at(1, 5)), Some(at(1, 5)), false),
        (Some(at(1, 5)), Some(at(2, 4)), true),
        (Some(at(1, 5)), Some(at(2, 6)), true),
    ] {
        question.noted.position = seen;
        let answer = Answer {
            read_at: read.map(ReadAt::from),
            found: None,
            is_stale: false,
        };
        assert_eq!(question.is_older(&answer), is_older, "{seen:?} {read:?}");
    }
}

/// A catalog with a host of two versions: what it said before the second, and
/// tiers that have seen both.
async fn lagging() -> (Arc<Switch>, Answer<SealedBytes>, Tiers) {
    let switch = Arc::new(Switch::new(Arc::new(Memory::new(Clock::System))));
    let ring = KeyRing::new(MasterKey::new(&[5; 32]));
    let sealer = Sealer::create(switch.clone(), ring).await.unwrap();
    sealer.seen().restart(switch.head().await.unwrap());
    for tenant in ["old", "new"] {
        let host = put_host(record_of("a.example", tenant));
        sealer.write(vec![host]).await.unwrap();
        if tenant == "old" {
            let answer = Catalog::find(&*switch, &name()).await.unwrap();
            switch.lagging.lock().unwrap().push(answer);
        }
    }
    let old = switch.lagging.lock().unwrap().pop().unwrap();
    (switch, old, Tiers::catalog(sealer))
}

#[tokio::test]
async fn an_answer_older_than_what_was_seen_is_read_again() {
    let (switch, old, tiers) = lagging().await;
    let answer = |tiers: Arc<Tiers>| async move {
        let answer = tiers.find(&name()).await?;
        Ok::<_, StoreError>(answer.found.unwrap().record.tenant.as_str().to_owned())
    };
    let tiers = Arc::new(tiers);
    *switch.lagging.lock().unwrap() = vec![old.clone(); MAX_LAGGING - 1];
    assert_eq!(answer(Arc::clone(&tiers)).await.unwrap(), "new");
    *switch.lagging.lock().unwrap() = vec![old; MAX_LAGGING];
    let error = answer(tiers).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("older state"));
}

/// Another server than the feed reads, behind a pooler: its answer counts once the feed has
/// met it, too.
#[tokio::test]
async fn an_answer_of_another_log_waits_for_the_feed() {
    let (switch, mut other, tiers) = lagging().await;
    let log = LogId([7; 16]);
    other.read_at = Some(ReadAt { log, number: 99 });
    *switch.lagging.lock().unwrap() = vec![other.clone(); MAX_LAGGING];
    let error = tiers.find(&name()).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("another log"));
    // One answer of it is read again.
    *switch.lagging.lock().unwrap() = vec![other.clone()];
    let found = tiers.find(&name()).await.unwrap().found.unwrap();
    assert_eq!(found.record.tenant.as_str(), "new");
    let Origin::Catalog(sealer) = &tiers.origin else {
        panic!("it is a catalog")
    };
    sealer.seen().restart(LogPosition {
        log,
        number: 99,
        mark: 0,
    });
    *switch.lagging.lock().unwrap() = vec![other];
    let found = tiers.find(&name()).await.unwrap().found.unwrap();
    assert_eq!(found.record.tenant.as_str(), "old");
}

/// A catalog with a challenge of another server, and how this one reads it.
async fn challenged() -> (Arc<Switch>, Arc<Tiers>, Challenges) {
    let switch = Arc::new(Switch::new(Arc::new(Memory::new(Clock::System))));
    let ring = KeyRing::new(MasterKey::new(&[5; 32]));
    let sealer = Sealer::create(switch.clone(), ring).await.unwrap();
    let answer = KeyAuthorization::new("token.thumb");
    let put = Challenges::write(HTTP, "token", &answer, i64::MAX, Precondition::Any);
    sealer.write(vec![put]).await.unwrap();
    let tiers = Arc::new(Tiers::catalog(sealer));
    let challenges = Challenges::of(tiers.clone(), Clock::System);
    (switch, tiers, challenges)
}

#[tokio::test(start_paused = true)]
async fn a_challenge_is_read_within_the_deadline() {
    let (switch, _, challenges) = challenged().await;
    let held = switch.documents.write().await;
    let begun = Instant::now();
    let error = challenges.answer(HTTP, "token").await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(after) if after == STORE_TIMEOUT));
    assert_eq!(begun.elapsed(), STORE_TIMEOUT);
    drop(held);
    assert!(challenges.answer(HTTP, "token").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn challenges_and_lookups_leave_a_dead_catalog_alone() {
    let (switch, tiers, challenges) = challenged().await;
    let held = switch.documents.write().await;
    for _ in 0..FAILURES {
        challenges.answer(HTTP, "token").await.unwrap_err();
    }
    // No caller waits any more.
    let begun = Instant::now();
    challenges.answer(HTTP, "token").await.unwrap_err();
    tiers.find(&name()).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    drop(held);
    tokio::time::advance(BREAKER_DELAYS.min).await;
    assert!(challenges.answer(HTTP, "token").await.unwrap().is_some());
    assert!(tiers.find(&name()).await.unwrap().found.is_none());
}

#[tokio::test]
async fn a_plain_store_has_no_challenges() {
    let challenges = Challenges::of(Arc::new(tiers().1), Clock::System);
    assert_eq!(challenges.answer(HTTP, "token").await.unwrap(), None);
    assert!(tiers().1.texts().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn texts_are_read_within_the_deadline() {
    let (switch, tiers, _) = challenged().await;
    let held = switch.documents.write().await;
    let error = tiers.texts().await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(after) if after == STORE_TIMEOUT));
    drop(held);
    assert!(tiers.texts().await.unwrap().is_empty());
}

const HTTP: ChallengeKind = ChallengeKind::Http01;
