use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;

use super::*;

/// Answers as the test says, counts calls, or never answers.
#[derive(Debug, Default)]
struct Scripted {
    calls: AtomicU32,
    in_flight: AtomicUsize,
    most: AtomicUsize,
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
            let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let takes = *self.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            let says = self.says.lock().unwrap().clone();
            says.map_or(Ok(Answer::absent()), Err)
        })
    }
}

fn limited(limits: &Limits) -> (Arc<Scripted>, Arc<Limited<Scripted>>) {
    let inner = Arc::new(Scripted::default());
    let limits = Limits {
        backoff: Backoff {
            jitter: 0.0,
            ..limits.backoff
        },
        ..limits.clone()
    };
    let limited = Arc::new(Limited::new(Arc::clone(&inner), &limits));
    (inner, limited)
}

fn name() -> HostName {
    HostName::parse("a.example").unwrap()
}

fn unavailable() -> Option<StoreError> {
    Some(StoreError::Unavailable("broken".into()))
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline() {
    let (inner, limited) = limited(&Limits::default());
    inner.take(Duration::from_secs(3600));
    let begun = Instant::now();
    let error = limited.find(&name()).await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(after) if after == Duration::from_secs(2)));
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_and_waiting_are_capped() {
    let (inner, limited) = limited(&Limits {
        in_flight: 2,
        waiting: 3,
        ..Limits::default()
    });
    inner.take(Duration::from_millis(100));
    let calls = (0..6).map(|_| {
        let limited = Arc::clone(&limited);
        tokio::spawn(async move { limited.find(&name()).await })
    });
    let mut refused = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(_) => {}
            Err(StoreError::Overloaded) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((refused, inner.calls()), (1, 5));
    assert_eq!(inner.most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_turn_ends_at_the_deadline_and_is_no_failure() {
    let (inner, limited) = limited(&Limits {
        in_flight: 1,
        failures: 4,
        ..Limits::default()
    });
    inner.take(Duration::from_secs(3600));
    let start = || {
        let limited = Arc::clone(&limited);
        tokio::spawn(async move { limited.find(&name()).await })
    };
    let running = start();
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let [_second, _third, last] = [(); 3].map(|()| start());
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(_)), "{error}");
    let error = last.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Overloaded), "{error}");
    inner.take(Duration::ZERO);
    assert!(limited.find(&name()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_tries_once_and_closes() {
    let (inner, limited) = limited(&Limits {
        failures: 3,
        ..Limits::default()
    });
    inner.say(unavailable());
    for _ in 0..3 {
        limited.find(&name()).await.unwrap_err();
    }
    let begun = Instant::now();
    for _ in 0..10 {
        let error = limited.find(&name()).await.unwrap_err();
        assert!(error.to_string().contains("left alone"), "{error}");
    }
    assert_eq!((begun.elapsed(), inner.calls()), (Duration::ZERO, 3));

    // One trial, that fails: the next rest is twice as long.
    tokio::time::advance(Duration::from_millis(100)).await;
    limited.find(&name()).await.unwrap_err();
    assert_eq!(inner.calls(), 4);
    tokio::time::advance(Duration::from_millis(199)).await;
    limited.find(&name()).await.unwrap_err();
    assert_eq!(inner.calls(), 4);

    // While a trial is under way, no other passes.
    tokio::time::advance(Duration::from_millis(1)).await;
    inner.say(None);
    inner.take(Duration::from_millis(10));
    let trial = Arc::clone(&limited);
    let trial = tokio::spawn(async move { trial.find(&name()).await });
    tokio::task::yield_now().await;
    limited.find(&name()).await.unwrap_err();
    trial.await.unwrap().unwrap();
    limited.find(&name()).await.unwrap();
    assert_eq!(inner.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_given_up_lets_another_try() {
    let (inner, limited) = limited(&Limits {
        failures: 1,
        ..Limits::default()
    });
    inner.say(unavailable());
    limited.find(&name()).await.unwrap_err();
    tokio::time::advance(Duration::from_millis(100)).await;
    inner.say(None);
    inner.take(Duration::from_millis(10));
    let host = name();
    let mut trial = limited.find(&host);
    let polled = std::future::poll_fn(|cx| Poll::Ready(trial.as_mut().poll(cx).is_pending()));
    assert!(polled.await);
    drop(trial);
    limited.find(&name()).await.unwrap();
    assert_eq!(inner.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn answers_that_blame_the_data_do_not_open_the_breaker() {
    let (inner, limited) = limited(&Limits {
        failures: 2,
        ..Limits::default()
    });
    inner.say(unavailable());
    limited.find(&name()).await.unwrap_err();
    for _ in 0..5 {
        inner.say(Some(StoreError::Corrupt("bad pair".into())));
        limited.find(&name()).await.unwrap_err();
        inner.say(Some(StoreError::Overloaded));
        limited.find(&name()).await.unwrap_err();
        inner.say(unavailable());
        limited.find(&name()).await.unwrap_err();
    }
    assert_eq!(inner.calls(), 16);
}
