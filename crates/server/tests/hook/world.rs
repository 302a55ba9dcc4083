//! Server with a hook that chooses as a test says, and clients of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use sekisho_certs::store::{BoxFuture, Change, ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{FeedState, Follower as _, Found, HostName, HostPattern, OpenKey, Served};
use sekisho_server::hook::{Answer, Choice, Clients, Hook, Question};
use sekisho_server::site::{Guard, Site};
use sekisho_server::tickets::Ring;
use sekisho_server::{Made, Publisher, VirtualHost};
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::common::{Running, Scripted, Setup, host, start};

/// Hook that answers as a test says, and notes what it was asked.
pub(crate) struct Fake {
    answer: Mutex<Box<Answering>>,
    asked: Mutex<Vec<Question>>,
    pub(crate) clients: Clients,
    /// Each call uses up a permit.
    permits: Semaphore,
}

type Answering = dyn Fn(&Question) -> Answer + Send + Sync;

impl Fake {
    /// Answers from now on with this choice, which holds for an hour.
    pub(crate) fn chooses(&self, choice: impl Fn(&Question) -> Choice + Send + Sync + 'static) {
        self.answers(move |question| answer(choice(question)));
    }

    pub(crate) fn answers(&self, answer: impl Fn(&Question) -> Answer + Send + Sync + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    /// Holds all later calls.
    pub(crate) fn hold(&self) {
        self.permits.forget_permits(usize::MAX);
    }

    /// Lets all calls end.
    pub(crate) fn unhold(&self) {
        self.permits.add_permits(UNHELD);
    }

    /// Returns the questions so far.
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Hook for Fake {
    fn answer<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        self.asked.lock().unwrap().push(question.clone());
        Box::pin(async move {
            self.permits.acquire().await.unwrap().forget();
            let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            answer(&question)
        })
    }
}

/// Makes an answer that holds for an hour and charges nobody.
pub(crate) fn answer(choice: Choice) -> Answer {
    Answer {
        choice,
        until: Instant::now() + HOUR,
        failed: false,
        charge: None,
    }
}

/// Makes an answer of a hook that failed.
pub(crate) fn failed(choice: Choice) -> Answer {
    Answer {
        failed: true,
        ..answer(choice)
    }
}

pub(crate) fn name(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

/// Server with a hook that chooses nothing at first, and its certificates.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) hook: Arc<Fake>,
    pub(crate) ca: TestCa,
    /// Covers `a.example`, `b.example`, `c.example` and `*.wild.example`.
    pub(crate) pair: Pair,
    publisher: Publisher,
}

impl World {
    /// Starts a server with these hosts, all with the one certificate.
    pub(crate) fn new(hosts: &[&str]) -> Self {
        Self::with(hosts, Setup::default(), |_| {})
    }

    /// Starts a server with these hosts after `change` has changed their records.
    pub(crate) fn with(
        hosts: &[&str],
        mut setup: Setup,
        change: impl Fn(&mut Found<OpenKey>),
    ) -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&NAMES, Key::P256);
        let hosts = hosts.iter().map(|pattern| {
            let mut found = host(pattern, &[(&pair, Key::P256)]);
            change(&mut found);
            found
        });
        let store = Scripted::new(hosts);
        let made: Arc<Mutex<Option<Arc<Fake>>>> = Arc::default();
        let noted = Arc::clone(&made);
        setup.hook = Some(Box::new(move |clients| {
            let fake = Arc::new(Fake {
                answer: Mutex::new(Box::new(|_| answer(Choice::Lookup))),
                asked: Mutex::default(),
                clients: clients.clone(),
                permits: Semaphore::new(UNHELD),
            });
            *noted.lock().unwrap() = Some(Arc::clone(&fake));
            fake
        }));
        let publisher = publisher(&setup.ring);
        let running = start(store, &setup);
        let hook = made.lock().unwrap().take().unwrap();
        Self {
            running,
            hook,
            ca,
            pair,
            publisher,
        }
    }

    /// Makes what a hook's certificate is served with.
    pub(crate) fn made(&self, tenant: &str, key: Option<&str>) -> Arc<Served<VirtualHost>> {
        let site = r#"{"redirect":"https://served.example/{host}/made"}"#;
        let pair = (self.pair.chain_pem(), self.pair.key_pem());
        let made = self.publisher.make(&Made {
            pairs: &[(pair.0.as_bytes(), pair.1.as_bytes())],
            tenant,
            site: Some(site),
            key,
            signatures: key.is_some(),
        });
        made.unwrap()
    }

    pub(crate) fn config(&self) -> ClientConfig {
        client::config(&self.ca)
    }

    /// Connects, over HTTP/2 if `h2`.
    pub(crate) async fn visit(&self, name: &str, h2: bool) -> Visit {
        let mut config = self.config();
        config.alpn_protocols = vec![if h2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        self.visit_as(name, config).await
    }

    pub(crate) async fn visit_as(&self, name: &str, config: ClientConfig) -> Visit {
        let stream = client::connect(self.running.address, name, config).await;
        let stream = stream.expect("a handshake");
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let io = TokioIo::new(stream);
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            let ended = tokio::spawn(async move { drop(connection.await) });
            Visit(Sender::Two(sender), ended)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            let ended = tokio::spawn(async move { drop(connection.await) });
            Visit(Sender::One(sender), ended)
        }
    }

    /// Applies a change of this host to the lookup.
    pub(crate) fn change(&self, number: u64, pattern: &str) {
        let (lookup, log) = (&self.running.lookup, LogId([7; 16]));
        if lookup.stats().position == 0 {
            lookup.restart(LogPosition {
                log,
                number: 0,
                mark: 0,
            });
            lookup.feed_is(FeedState::Healthy);
        }
        lookup.apply(&ChangePage {
            log,
            last: number,
            gap: false,
            mark_before: Some(0),
            mark_last: Some(0),
            changes: vec![Change {
                number,
                subject: Subject::Host(HostPattern::parse(pattern).unwrap()),
                what: What::Put,
            }],
        });
    }

    /// Makes a record with the one certificate.
    pub(crate) fn record(&self, pattern: &str) -> Found<OpenKey> {
        host(pattern, &[(&self.pair, Key::P256)])
    }
}

/// Makes a publisher whose tickets come from this ring.
pub(crate) fn publisher(ring: &Arc<Ring>) -> Publisher {
    let guard = Arc::new(Guard::default());
    Publisher::new(Arc::clone(ring), Site::not_found(), guard)
}

/// Connection of a client.
pub(crate) struct Visit(Sender, JoinHandle<()>);

enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Visit {
    /// Sends a request for this host. Returns the status, and the pattern that
    /// answered.
    pub(crate) async fn get(&mut self, name: &str) -> (u16, String) {
        let answer = match &mut self.0 {
            Sender::One(sender) => {
                let request = http::Request::get("/").header("host", name);
                let request = request.body(Empty::new()).unwrap();
                sender.ready().await.unwrap();
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                let request = http::Request::get(format!("https://{name}/"));
                let request = request.body(Empty::new()).unwrap();
                sender.ready().await.unwrap();
                sender.send_request(request).await
            }
        };
        let answer = answer.expect("an answer");
        let location = answer.headers().get("location");
        let location = location.map_or("", |value| value.to_str().unwrap());
        let pattern = location.rsplit('/').next().unwrap().to_owned();
        (answer.status().as_u16(), pattern)
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn ends(self) {
        let (_sender, ended) = (self.0, self.1);
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        ended.expect("the connection ends").unwrap();
    }
}

/// Names that the certificate covers.
const NAMES: [&str; 4] = ["a.example", "b.example", "c.example", "*.wild.example"];
const HOUR: Duration = Duration::from_secs(3600);
/// Permits of a hook that holds no calls: more than any test has calls.
const UNHELD: usize = 1 << 40;
