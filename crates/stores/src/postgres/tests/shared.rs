//! Look-ups that come at the same time, on one connection.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use super::*;
use crate::postgres::share::TOGETHER;

/// Holds up all look-ups until it is told to end.
struct Lock {
    end: oneshot::Sender<()>,
    held: JoinHandle<Result<()>>,
}

impl Lock {
    async fn of(store: &Postgres) -> Self {
        let (end, ended) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        let pool = Arc::clone(&store.pool);
        let held = tokio::spawn(async move {
            let work = async move |lent: Lent| {
                lent.run("BEGIN; LOCK TABLE sekisho.hosts IN ACCESS EXCLUSIVE MODE")
                    .await?;
                tell.send(()).unwrap();
                ended.await.unwrap();
                lent.run("COMMIT").await
            };
            pool.call(Duration::from_secs(30), work).await
        });
        told.await.unwrap();
        Self { end, held }
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.held.await.unwrap().unwrap();
    }
}

/// A look-up that lasts until it is told to end.
struct Held {
    begun: oneshot::Receiver<()>,
    end: oneshot::Sender<()>,
    held: JoinHandle<Result<()>>,
}

impl Held {
    /// Asks this first, if anything.
    fn asking(store: &Postgres, question: &'static str) -> Self {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let pool = Arc::clone(&store.pool);
        let held = tokio::spawn(async move {
            let work = async move |seat: Seat| {
                begin.send(()).unwrap();
                seat.run(question).await?;
                ended.await.unwrap();
                Ok(())
            };
            pool.look_up(Duration::from_mins(1), work).await
        });
        Self { begun, end, held }
    }

    fn of(store: &Postgres) -> Self {
        Self::asking(store, "")
    }

    async fn begun(&mut self) {
        in_time(&mut self.begun).await.unwrap();
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        in_time(self.held).await.unwrap().unwrap();
    }
}

/// How many connections under this name there are, and how many of them wait
/// for a lock.
pub(super) fn connections(name: &str) -> (u32, u32) {
    let sql = format!(
        "SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock') \
         FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    let said = services::Postgres::shared().sql("postgres", &sql);
    let (all, waiting) = said.trim().split_once('|').unwrap();
    (all.parse().unwrap(), waiting.parse().unwrap())
}

#[tokio::test]
async fn look_ups_at_once_share_a_connection() {
    let url = database();
    let store = Arc::new(create(&format!("{url}&application_name=together")));
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    assert!(finds(&store, "a.example").await);
    let other = existing(&url);
    let lock = Lock::of(&other).await;
    let find = |host: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { finds(&store, host).await })
    };
    let asked: Vec<_> = ["a.example", "b.example"].repeat(4);
    let asked: Vec<_> = asked.into_iter().map(find).collect();
    in_time(async {
        while connections("together").1 == 0 {
            yield_now().await;
        }
        // The others are where the one is by now.
        for _ in 0..100 {
            yield_now().await;
        }
    })
    .await;
    lock.end().await;
    let mut found = Vec::new();
    for asked in asked {
        found.push(in_time(asked).await.unwrap());
    }
    assert_eq!(found, [true, false].repeat(4));
    // A connection is kept once it is made: one for the look-ups, and the one
    // that listens.
    let all = connections("together").0;
    assert!(all <= 2, "{all} connections");
}

#[tokio::test]
async fn a_connection_with_an_answer_that_nobody_waits_for_is_left() {
    let url = database();
    let options = Options {
        read: Duration::from_millis(300),
        ..Options::default()
    };
    let store = open(&url, Mode::Create, &options);
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let (a, b) = (name("a.example"), name("b.example"));
    // A machine may be too busy for the short time.
    in_time(async { while store.find(&a).await.is_err() {} }).await;
    let other = existing(&url);
    let lock = Lock::of(&other).await;
    for _ in 0..2 {
        let (a, b) = tokio::join!(store.find(&a), store.find(&b));
        for late in [a, b] {
            assert!(matches!(late, Err(StoreError::TimedOut(_))), "{late:?}");
        }
    }
    lock.end().await;
    in_time(async {
        while !matches!(store.find(&a).await, Ok(Answer { found: Some(_), .. })) {}
        while !matches!(store.find(&b).await, Ok(Answer { found: None, .. })) {}
    })
    .await;
}

/// So many look-ups that at any time some use all connections which they may
/// use together.
#[tokio::test]
async fn a_call_has_its_turn_among_look_ups_without_end() {
    for pool in [1, 2] {
        let store = Arc::new(create(&format!("{}&pool={pool}", database())));
        store
            .write(Batch::unchecked(host_with("a.example", 1, sealed)))
            .await
            .unwrap();
        let mut held = VecDeque::new();
        for _ in 0..(pool - 1) * TOGETHER + 1 {
            let mut one = Held::of(&store);
            one.begun().await;
            held.push_back(one);
        }
        let asked = Arc::clone(&store);
        let changes = tokio::spawn(async move { asked.changes(0, 9).await });
        while !changes.is_finished() {
            let mut next = Held::of(&store);
            // One ends when the next has begun, unless that waits for it.
            let _ = timeout(Duration::from_millis(100), &mut next.begun).await;
            held.push_back(next);
            held.pop_front().unwrap().end().await;
        }
        let page = changes.await.unwrap().unwrap();
        assert_eq!(page.last, 1, "pool={pool}");
        for one in held {
            one.end().await;
        }
    }
}

#[tokio::test]
async fn a_look_up_that_waits_comes_before_those_after_it() {
    let store = create(&format!("{}&pool=2", database()));
    // Two that come before there is a connection make one each.
    let mut made = [Held::of(&store), Held::of(&store)];
    for one in &mut made {
        one.begun().await;
    }
    for one in made {
        one.end().await;
    }
    let mut held = Vec::new();
    let mut first = loop {
        let mut one = Held::of(&store);
        for _ in 0..100 {
            yield_now().await;
        }
        if one.begun.try_recv().is_err() {
            break one;
        }
        held.push(one);
    };
    let mut second = Held::of(&store);
    for _ in 0..100 {
        yield_now().await;
    }
    // A place among others, then another.
    held.remove(0).end().await;
    let mut late = Held::of(&store);
    first.begun().await;
    held.remove(0).end().await;
    second.begun().await;
    assert!(late.begun.try_recv().is_err());
    held.remove(0).end().await;
    late.begun().await;
    held.extend([first, second, late]);
    for one in held {
        one.end().await;
    }
}

#[tokio::test]
async fn no_look_up_joins_one_that_has_no_answer_for_long() {
    let url = database();
    let store = create(&format!("{url}&application_name=late"));
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let other = existing(&url);
    let lock = Lock::of(&other).await;
    let mut stuck = Held::asking(&store, "SELECT count(*) FROM sekisho.hosts");
    stuck.begun().await;
    let late = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'late' \
                AND wait_event_type = 'Lock' AND now() - query_start > interval '0.2 s'";
    in_time(async {
        while services::Postgres::shared().sql("postgres", late).trim() != "1" {
            yield_now().await;
        }
    })
    .await;
    let mut held: Vec<_> = (0..3).map(|_| Held::asking(&store, "SELECT 1")).collect();
    for one in &mut held {
        one.begun().await;
    }
    for one in held {
        one.end().await;
    }
    lock.end().await;
    stuck.end().await;
}
