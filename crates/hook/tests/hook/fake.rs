//! Imports that answer from memory, and short ways to run a script.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sekisho_certs::HostName;
use sekisho_certs::hook::{Charge, ClientFacts};
use sekisho_hook::{
    Answer, CallError, Choice, Found, Hello, Hook, HttpAnswer, HttpRequest, Imports, OnError,
    Owner, Pair, RedisCommand, RedisReply, Report, Settings, SqlRow, SqlValue,
};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Certificate as the fake makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) subjects: Vec<String>,
    pub(crate) tenant: String,
    pub(crate) site: Option<String>,
    pub(crate) key: Option<String>,
}

/// State of the imports that tests look at.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) values: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Lookups so far that the cache did not answer.
    pub(crate) lookups: AtomicUsize,
    /// Commands to Redis so far.
    pub(crate) commands: AtomicUsize,
    /// Set while Redis fails.
    pub(crate) down: Mutex<bool>,
    /// Keys that are answered only once this is notified.
    pub(crate) gate: Notify,
    /// Queries with their parameters.
    pub(crate) queries: Mutex<Vec<(String, Vec<SqlValue>)>>,
    /// Tokens in use, and spent.
    pub(crate) tokens: AtomicUsize,
    pub(crate) spent: Arc<AtomicUsize>,
    /// Commands that were dropped before their answer.
    pub(crate) dropped: AtomicUsize,
}

#[derive(Clone, Default)]
pub(crate) struct Fake(pub(crate) Arc<World>);

/// Command that is never answered.
struct Waits<'a>(&'a World);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

impl Imports for Fake {
    type Made = Arc<Certificate>;

    fn lookup<'a>(&'a self, name: &'a HostName, _: IpAddr) -> BoxFuture<'a, Found> {
        self.0.lookups.fetch_add(1, SeqCst);
        Box::pin(async move {
            match name.as_str() {
                "there.example" => Found::Found,
                "down.example" => Found::Failed("the store is down".into()),
                _ => Found::Absent,
            }
        })
    }

    fn cached(&self, name: &HostName) -> Option<bool> {
        match name.as_str() {
            "there.example" => Some(true),
            "cold.example" | "down.example" => None,
            _ => Some(false),
        }
    }

    fn admit(&self, client: IpAddr, _: Instant) -> BoxFuture<'_, Result<Charge, String>> {
        Box::pin(async move { self.try_admit(client).ok_or("over budget".into()) })
    }

    fn try_admit(&self, client: IpAddr) -> Option<Charge> {
        if client.to_string() == "203.0.113.1" {
            return None;
        }
        self.0.tokens.fetch_add(1, SeqCst);
        let spent = Arc::clone(&self.0.spent);
        Some(Box::new(move || _ = spent.fetch_add(1, SeqCst)))
    }

    fn redis<'a>(
        &'a self,
        url: &'a str,
        command: RedisCommand,
    ) -> BoxFuture<'a, Result<RedisReply, CallError>> {
        self.0.commands.fetch_add(1, SeqCst);
        Box::pin(async move {
            if url != "redis://here" {
                return Err(CallError::Outage(format!("{url} is not configured")));
            }
            if *self.0.down.lock().unwrap() {
                return Err(CallError::Outage("connection refused".into()));
            }
            let value = |key: &[u8]| {
                let key = String::from_utf8_lossy(key).into_owned();
                self.0.values.lock().unwrap().get(&key).cloned()
            };
            Ok(match command {
                RedisCommand::Get(key) if key == b"hang" => {
                    let _waits = Waits(&self.0);
                    pending().await
                }
                RedisCommand::Get(key) if key == b"gate" => {
                    self.0.gate.notified().await;
                    RedisReply::Value(None)
                }
                RedisCommand::Get(key) if key == b"big" => {
                    RedisReply::Value(Some(vec![b'x'; 10 << 20]))
                }
                RedisCommand::Get(key) if key == b"hash" => RedisReply::Fields(Vec::new()),
                RedisCommand::Get(key) => RedisReply::Value(value(&key)),
                RedisCommand::Mget(keys) => {
                    RedisReply::Values(keys.iter().map(|key| value(key)).collect())
                }
                RedisCommand::Hgetall(key) => {
                    let fields = value(&key).map(|value| (b"crt".to_vec(), value));
                    RedisReply::Fields(fields.into_iter().collect())
                }
            })
        })
    }

    fn http_get(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, CallError>> {
        Box::pin(async move {
            let answer = |status| HttpAnswer {
                status,
                headers: request.headers.iter().cloned().collect(),
                body: b"body".to_vec(),
            };
            match &*request.url {
                "https://here/found" => Ok(answer(200)),
                "https://here/absent" => Ok(answer(404)),
                "https://here/broken" => Ok(answer(500)),
                "https://here/moved" => Ok(answer(302)),
                "https://here/hang" => match tokio::time::timeout(request.timeout, pending()).await
                {
                    Ok(never) => never,
                    Err(_) => Err(CallError::Outage("no answer in time".into())),
                },
                _ => Err(CallError::Outage("connection refused".into())),
            }
        })
    }

    fn sql<'a>(
        &'a self,
        database: &'a str,
        query: String,
        parameters: Vec<SqlValue>,
    ) -> BoxFuture<'a, Result<Vec<SqlRow>, CallError>> {
        Box::pin(async move {
            if database != "main" {
                let why = format!("[hook.sql] has no database {database}");
                return Err(CallError::Refused(why));
            }
            self.0.queries.lock().unwrap().push((query, parameters));
            Ok(vec![vec![
                ("host".into(), SqlValue::Text("there.example".into())),
                ("port".into(), SqlValue::Integer(443)),
                ("note".into(), SqlValue::Null),
            ]])
        })
    }

    fn make(&self, pairs: &[Pair], owner: &Owner) -> Result<Arc<Certificate>, String> {
        let subject = |pem: &[u8]| {
            let text = String::from_utf8_lossy(pem).into_owned();
            text.lines().nth(1).unwrap_or_default().to_owned()
        };
        let check = |pair: &Pair| {
            let subject_of = subject(&pair.certificate);
            match subject(pair.key.expose()) == subject_of {
                true => Ok(subject_of),
                false => Err("the key does not belong to the certificate".to_owned()),
            }
        };
        Ok(Arc::new(Certificate {
            subjects: pairs.iter().map(check).collect::<Result<_, _>>()?,
            tenant: owner.tenant.as_str().into(),
            site: owner.site.as_deref().map(Into::into),
            key: owner.key.as_deref().map(Into::into),
        }))
    }

    fn weight(&self, _: &Arc<Certificate>) -> u64 {
        4096
    }
}

/// Returns the text that the fake takes for a chain of `subject`.
pub(crate) fn chain(subject: &str) -> Vec<u8> {
    format!("-----BEGIN CERTIFICATE-----\n{subject}\n").into_bytes()
}

/// Returns the text that the fake takes for a key of `subject`.
pub(crate) fn key(subject: &str) -> Vec<u8> {
    format!("-----BEGIN PRIVATE KEY-----\n{subject}\n").into_bytes()
}

/// Returns settings with small bounds for a script.
pub(crate) fn settings(source: &str) -> Settings {
    Settings {
        name: "handshake.luau".into(),
        source: source.into(),
        folders: Vec::new(),
        on_error: OnError::Refuse,
        memory: 16 << 20,
        cpu: Duration::from_millis(20),
        deadline: Duration::from_secs(5),
        in_flight: 1024,
        waiting_per_prefix: 128,
        region: 32 << 20,
        cache: 4 << 20,
        keep: Duration::from_secs(60),
        absent: Duration::from_secs(5),
        failed: Duration::from_secs(1),
    }
}

/// Compiles a script with these settings.
pub(crate) fn hook_with(
    source: &str,
    change: impl FnOnce(&mut Settings),
) -> (Hook<Fake>, Arc<World>) {
    let fake = Fake::default();
    let world = Arc::clone(&fake.0);
    let mut settings = settings(source);
    change(&mut settings);
    let hook = Hook::compile(settings, fake).unwrap_or_else(|error| panic!("{error}"));
    (hook, world)
}

/// Compiles a script whose `handshake` has this body.
pub(crate) fn body(body: &str) -> (Hook<Fake>, Arc<World>) {
    hook_with(&format!("function handshake(tls)\n{body}\nend"), |_| {})
}

/// Returns the error of a script that must not start.
pub(crate) fn refused(source: &str) -> String {
    match Hook::compile(settings(source), Fake::default()) {
        Ok(_) => panic!("the script was taken"),
        Err(error) => error.to_string(),
    }
}

/// Returns a hello with this server name, from a client at 192.0.2.7.
pub(crate) fn hello(name: &str) -> Arc<Hello> {
    let name = HostName::parse(name).unwrap();
    Arc::new(hello_of(Some(name), "192.0.2.7:4711"))
}

/// Returns a hello with a server name and nothing else.
pub(crate) fn hello_of(server_name: Option<HostName>, client: &str) -> Hello {
    Hello {
        server_name,
        facts: Arc::new(ClientFacts {
            client: client.parse().unwrap(),
            local: "127.0.0.1:443".parse().unwrap(),
            alpn: Box::default(),
            signature_schemes: Box::default(),
            cipher_suites: Box::default(),
            named_groups: Box::default(),
        }),
    }
}

/// Asks a hook for `name`.
pub(crate) async fn ask(hook: &Hook<Fake>, name: &str) -> Answer<Arc<Certificate>> {
    hook.ask(hello(name), Instant::now() + Duration::from_secs(10))
        .await
}

/// Asks a hook for `name` and reports.
pub(crate) async fn report(hook: &Hook<Fake>, name: &str) -> (Answer<Arc<Certificate>>, Report) {
    hook.report(hello(name), Instant::now() + Duration::from_secs(10))
        .await
}

/// Returns the error of a run that must fail, for shop.example.
pub(crate) async fn failure(hook: &Hook<Fake>) -> String {
    let (answer, report) = report(hook, "shop.example").await;
    assert!(
        matches!(answer.choice, Choice::Refuse(80)),
        "{:?}",
        answer.choice
    );
    report.error.expect("an error")
}

/// Returns the certificate of an answer.
pub(crate) fn made(answer: &Answer<Arc<Certificate>>) -> &Certificate {
    match &answer.choice {
        Choice::Made(made) => made,
        other => panic!("{other:?}"),
    }
}
