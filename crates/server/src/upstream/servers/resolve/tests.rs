use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;

type Taken = Result<Arc<[IpAddr]>, Unresolved>;

struct Fixture {
    names: Arc<Names>,
    questions: mpsc::Receiver<Question>,
}

impl Fixture {
    fn new() -> Self {
        let (names, asking) = Names::new(Vec::new(), Arc::default());
        Self {
            names: Arc::new(names),
            questions: asking.questions,
        }
    }

    /// Resolves a name that is known: without a wait.
    fn known(&self, name: &str) -> Taken {
        self.names
            .resolve(name, TENANT)
            .now_or_never()
            .expect("no wait")
    }

    /// Begins to resolve a name; returns once it waits.
    async fn waits(&self, name: &'static str) -> JoinHandle<Taken> {
        let names = Arc::clone(&self.names);
        let waits = tokio::spawn(async move { names.resolve(name, TENANT).await });
        tokio::task::yield_now().await;
        waits
    }

    fn question(&mut self) -> Question {
        self.questions.try_recv().expect("a question")
    }

    fn is_silent(&mut self) -> bool {
        self.questions.try_recv().is_err()
    }

    /// Resolves a name that has this answer.
    async fn answered(&mut self, ip: &str, ttl: u64) {
        let waits = self.waits(NAME).await;
        self.question().answered(&ips(ip), seconds(ttl));
        assert_eq!(waits.await.unwrap(), Ok(ips(ip).into()));
    }
}

const TENANT: u64 = 7;
const OTHER: u64 = 8;
const NAME: &str = "app.example";
const FIRST: &str = "192.0.2.1";
const SECOND: &str = "192.0.2.2";

fn ips(ip: &str) -> Vec<IpAddr> {
    vec![ip.parse().unwrap()]
}

fn found(ip: &str) -> Taken {
    Ok(ips(ip).into())
}

fn failed(why: &str) -> Taken {
    Err(Unresolved::Failed(why.into()))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_good_for_its_ttl() {
    let mut fixture = Fixture::new();
    fixture.answered(FIRST, 60).await;
    advance(seconds(59)).await;
    assert_eq!(fixture.known(NAME), found(FIRST));
    assert!(fixture.is_silent());
    advance(seconds(1)).await;
    // The next answer is waited for: the name may have moved.
    fixture.answered(SECOND, 60).await;
    assert_eq!(fixture.known(NAME), found(SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_ttl_is_one_second_to_five_minutes() {
    for (ttl, kept) in [(0, 1), (1, 1), (86_400, 300)] {
        let mut fixture = Fixture::new();
        fixture.answered(FIRST, ttl).await;
        advance(seconds(kept) - Duration::from_millis(1)).await;
        assert_eq!(fixture.known(NAME), found(FIRST));
        advance(Duration::from_millis(1)).await;
        let _waits = fixture.waits(NAME).await;
        fixture.question();
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_share_one_question() {
    let mut fixture = Fixture::new();
    let waits = [
        fixture.waits(NAME).await,
        fixture.waits(NAME).await,
        fixture.waits(NAME).await,
    ];
    let question = fixture.question();
    assert!(fixture.is_silent());
    question.answered(&ips(FIRST), seconds(60));
    for wait in waits {
        assert_eq!(wait.await.unwrap(), found(FIRST));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_no_question() {
    let mut fixture = Fixture::new();
    let leaves = fixture.waits(NAME).await;
    let stays = fixture.waits(NAME).await;
    leaves.abort();
    fixture.question().answered(&ips(FIRST), seconds(60));
    assert_eq!(stays.await.unwrap(), found(FIRST));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_remembered_for_five_seconds() {
    let mut fixture = Fixture::new();
    let waits = fixture.waits(NAME).await;
    fixture.question().failed("refused");
    assert_eq!(waits.await.unwrap(), failed("refused"));
    advance(Duration::from_millis(4_999)).await;
    assert_eq!(fixture.known(NAME), failed("refused"));
    advance(Duration::from_millis(1)).await;
    fixture.answered(FIRST, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_without_addresses_is_remembered_for_five_seconds() {
    let mut fixture = Fixture::new();
    fixture.answered(FIRST, 1).await;
    advance(seconds(1)).await;
    // An answer without addresses is one: the old address is not used on.
    let waits = fixture.waits(NAME).await;
    fixture.question().answered(&[], seconds(60));
    assert_eq!(waits.await.unwrap(), Err(Unresolved::Absent));
    assert_eq!(fixture.known(NAME), Err(Unresolved::Absent));
    advance(seconds(5)).await;
    fixture.answered(SECOND, 60).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_is_used_for_five_minutes_of_failures() {
    let mut fixture = Fixture::new();
    fixture.answered(FIRST, 60).await;
    advance(seconds(60)).await;
    for _ in 0..60 {
        let waits = fixture.waits(NAME).await;
        fixture.question().failed("refused");
        assert_eq!(waits.await.unwrap(), found(FIRST));
        // Without a new question, while the failure is remembered.
        assert_eq!(fixture.known(NAME), found(FIRST));
        assert!(fixture.is_silent());
        advance(seconds(5)).await;
    }
    let waits = fixture.waits(NAME).await;
    fixture.question().failed("refused");
    assert_eq!(waits.await.unwrap(), failed("refused"));
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_is_used_after_a_second_of_silence() {
    let mut fixture = Fixture::new();
    fixture.answered(FIRST, 60).await;
    advance(seconds(60)).await;
    let waits = fixture.waits(NAME).await;
    let question = fixture.question();
    advance(Duration::from_millis(999)).await;
    assert!(!waits.is_finished());
    advance(Duration::from_millis(2)).await;
    assert_eq!(waits.await.unwrap(), found(FIRST));
    question.answered(&ips(SECOND), seconds(60));
    assert_eq!(fixture.known(NAME), found(SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_is_waited_for_five_seconds() {
    let mut fixture = Fixture::new();
    let waits = fixture.waits(NAME).await;
    let _question = fixture.question();
    advance(Duration::from_millis(4_999)).await;
    assert!(!waits.is_finished());
    advance(Duration::from_millis(2)).await;
    assert_eq!(waits.await.unwrap(), failed(LATE));
}

#[tokio::test(start_paused = true)]
async fn questions_beyond_a_tenants_share_fail_at_once() {
    let fixture = Fixture::new();
    for n in 0..QUESTIONS / 2 {
        let name = format!("{n}.example");
        assert!(
            fixture
                .names
                .resolve(&name, TENANT)
                .now_or_never()
                .is_none()
        );
    }
    assert_eq!(fixture.known(NAME), failed(BUSY));
    // That is no failure for another tenant, which asks for itself.
    for name in [NAME, "0.example"] {
        let waits = fixture.names.resolve(name, OTHER);
        assert!(waits.now_or_never().is_none(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_silent_names_delays_no_others() {
    let silent = tokio::net::UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let servers = vec![silent.local_addr().unwrap()];
    let (names, asking) = Names::new(servers, Arc::default());
    let names = Arc::new(names);
    let asking = tokio::spawn(asking.run());
    for n in 0..200 {
        let names = Arc::clone(&names);
        tokio::spawn(async move { names.resolve(&format!("{n}.example"), TENANT).await });
    }
    tokio::task::yield_now().await;
    // A name of /etc/hosts needs a turn, but no name server.
    let found = tokio::time::timeout(seconds(1), names.resolve("localhost", OTHER)).await;
    assert!(found.expect("in time").is_ok());
    asking.abort();
}

#[tokio::test(start_paused = true)]
async fn names_are_bounded() {
    let mut fixture = Fixture::new();
    for n in 0..3 * NAMES {
        let name = format!("{n}.example");
        let wait = fixture.names.resolve(&name, TENANT).now_or_never();
        assert!(wait.is_none());
        fixture.question().answered(&ips(FIRST), seconds(60));
    }
    assert!(fixture.names.names.len() <= NAMES);
}
