//! Clients of scripts: Redis, HTTP and PostgreSQL, by the connections that stores have.

mod gates;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use sekisho_certs::{StoreError, lock};
use sekisho_gate::Denied;
use sekisho_hook::{
    CallError, HttpAnswer, HttpRequest, RedisCommand, RedisReply, SqlRow, SqlValue,
};
use sekisho_https::{BodyError, HttpsClient, Timeouts, body, roots};
use sekisho_stores::postgres::{self, ScriptDatabase};
use sekisho_stores::redis::{Redis as RedisClient, RedisUrl};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use gates::Gates;

/// Clients of scripts. Redis and HTTP are reached where a script says, databases by the
/// names that the configuration gives them.
pub(crate) struct Clients {
    /// By URL as scripts write it, at most [`MAX_REDIS`].
    redis: Mutex<HashMap<Box<str>, RedisSlot>>,
    databases: BTreeMap<String, ScriptDatabase>,
    http: Arc<HttpsClient>,
    gates: Gates,
    /// Why there is no HTTPS, such as a system without authorities.
    no_https: Option<String>,
    /// Folder that relative paths in URLs begin at.
    base: PathBuf,
    runtime: Handle,
}

/// Slot of a client of Redis, empty until the client is made.
type RedisSlot = Arc<OnceCell<Arc<RedisClient>>>;

impl Clients {
    /// Connects to nothing yet. `runtime` drives all connections. A query may take
    /// `bound`; `ca` has the authorities that are believed instead of the system's; relative
    /// paths in URLs of scripts begin at `base`.
    ///
    /// # Errors
    /// Names a file that can't be used.
    pub(crate) fn new(
        databases: &BTreeMap<String, postgres::Url>,
        bound: Duration,
        ca: Option<&Path>,
        base: PathBuf,
        runtime: &Handle,
    ) -> Result<Self> {
        let open = |(name, url): (&String, _)| {
            let database = ScriptDatabase::new(url, bound, runtime);
            let database = database.with_context(|| format!("[hook.sql] {name}"))?;
            Ok((name.clone(), database))
        };
        let (authorities, no_https) = match (roots::load(ca, "[hook] ca"), ca) {
            (Ok(authorities), _) => (authorities, None),
            (Err(why), Some(_)) => anyhow::bail!(why),
            (Err(why), None) => (rustls::RootCertStore::empty(), Some(why)),
        };
        let tls = roots::client(authorities, None).map_err(anyhow::Error::msg)?;
        Ok(Self {
            redis: Mutex::default(),
            databases: databases.iter().map(open).collect::<Result<_>>()?,
            http: Arc::new(HttpsClient::new(tls, Timeouts::NEAR)),
            gates: Gates::new(),
            no_https,
            base,
            runtime: runtime.clone(),
        })
    }

    /// Sends a command to the Redis server at `url`; the first one connects.
    pub(crate) async fn redis(
        &self,
        url: &str,
        command: RedisCommand,
    ) -> Result<RedisReply, CallError> {
        let client = self.redis_at(url).await?;
        match command {
            RedisCommand::Get(key) => {
                let mut values = strings(&client, vec![key]).await?;
                Ok(RedisReply::Value(values.pop().flatten()))
            }
            RedisCommand::Mget(keys) => Ok(RedisReply::Values(strings(&client, keys).await?)),
            RedisCommand::Hgetall(key) => {
                let hash = client.hash(&text(key)?).await;
                let hash = hash.map_err(|error| failed(&error))?;
                let fields = hash.unwrap_or_default().into_iter();
                let taken = |(mut field, mut value): (_, _)| (take(&mut field), take(&mut value));
                Ok(RedisReply::Fields(fields.map(taken).collect()))
            }
        }
    }

    /// Returns the client of a URL. The first call makes it on another thread, since files
    /// for TLS are read; others wait for that.
    async fn redis_at(&self, url: &str) -> Result<Arc<RedisClient>, CallError> {
        let slot = self.redis_slot(url).map_err(CallError::Refused)?;
        let made = slot.get_or_try_init(|| async {
            let parsed = RedisUrl::parse(url, &self.base).map_err(CallError::Refused)?;
            let runtime = self.runtime.clone();
            let open = move || RedisClient::open(&parsed, &runtime);
            let opened = tokio::task::spawn_blocking(open).await;
            let opened = opened.map_err(|_| CallError::Outage("the server shuts down".into()))?;
            let opened = opened.map_err(|error| CallError::Outage(said(&error)))?;
            Ok(Arc::new(opened))
        });
        made.await.cloned()
    }

    /// Returns the slot of a URL's client, empty at first.
    fn redis_slot(&self, url: &str) -> Result<RedisSlot, String> {
        let mut known = lock(&self.redis);
        if let Some(slot) = known.get(url) {
            return Ok(Arc::clone(slot));
        }
        if known.len() == MAX_REDIS {
            // A client that could not be made has no connections.
            known.retain(|_, slot| slot.initialized() || Arc::strong_count(slot) > 1);
        }
        if known.len() == MAX_REDIS {
            return Err(format!(
                "there are {MAX_REDIS} URLs of Redis in use already: write fixed URLs, and put \
                 what varies into the keys"
            ));
        }
        Ok(Arc::clone(known.entry(url.into()).or_default()))
    }

    /// Sends a GET request, on the background runtime. Any status is an answer. Until the
    /// request has its permits, neither it nor a task of its own takes memory.
    pub(crate) async fn http_get(&self, request: HttpRequest) -> Result<HttpAnswer, CallError> {
        let limit = request.timeout;
        let deadline = Instant::now() + limit;
        let uri = uri(&request).map_err(CallError::Refused)?;
        if let (Some(why), true) = (&self.no_https, uri.scheme() == Some(&Scheme::HTTPS)) {
            return Err(CallError::Outage(why.clone()));
        }
        let permits = timeout_at(deadline, async {
            // Before a permit of all: a slow server, or one network, keeps others from none.
            let permits = self.gates.enter(request.client, &uri).await?;
            Ok::<_, Denied>((permits, self.http.permit().await))
        });
        let permits = permits.await.unwrap_or(Err(Denied::Late)).map_err(|_| {
            CallError::Outage(format!(
                "no permit within {limit:?}: too many requests wait"
            ))
        })?;
        let request = get(&request, uri).map_err(CallError::Refused)?;
        // Boxed: keeps this future out of the one that waits for its permits.
        Box::pin(self.exchange(request, permits, (deadline, limit))).await
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        permits: impl Send + 'static,
        (deadline, limit): (Instant, Duration),
    ) -> Result<HttpAnswer, CallError> {
        let http = Arc::clone(&self.http);
        let exchange = async move {
            let _permits = permits;
            let sent = http.send(&request).await;
            answer(sent.map_err(CallError::Outage)?).await
        };
        // Dropping the set aborts the exchange: nobody waits for it any more.
        let mut task = JoinSet::new();
        task.spawn_on(timeout_at(deadline, exchange), &self.runtime);
        let outage = match task.join_next().await {
            Some(Ok(Ok(answered))) => return answered,
            Some(Ok(Err(_))) => format!("no answer within {limit:?}"),
            Some(Err(_)) | None => "the background runtime has ended".into(),
        };
        Err(CallError::Outage(outage))
    }

    /// Runs a query on the database that `[hook.sql]` names so.
    pub(crate) async fn sql(
        &self,
        database: &str,
        query: String,
        parameters: Vec<SqlValue>,
    ) -> Result<Vec<SqlRow>, CallError> {
        let Some(database) = self.databases.get(database) else {
            let names: Vec<_> = self.databases.keys().map(String::as_str).collect();
            let names = names.join(", ");
            let why = format!("[hook.sql] has no {database:?}; it has: {names}");
            return Err(CallError::Refused(why));
        };
        let rows = database.query(query, parameters).await;
        rows.map_err(|error| failed(&error))
    }
}

async fn strings(
    client: &RedisClient,
    keys: Vec<Vec<u8>>,
) -> Result<Vec<Option<Vec<u8>>>, CallError> {
    let keys: Vec<String> = keys.into_iter().map(text).collect::<Result<_, _>>()?;
    let values = client.strings(&keys).await;
    let values = values.map_err(|error| failed(&error))?;
    let taken = |value: Option<_>| value.map(|mut bytes| take(&mut bytes));
    Ok(values.into_iter().map(taken).collect())
}

/// Moves the bytes out, which else are wiped: a script holds them now.
fn take(bytes: &mut zeroize::Zeroizing<Vec<u8>>) -> Vec<u8> {
    std::mem::take(bytes)
}

fn text(key: Vec<u8>) -> Result<String, CallError> {
    let text = String::from_utf8(key);
    text.map_err(|_| CallError::Refused("a key of Redis must be UTF-8".into()))
}

fn uri(request: &HttpRequest) -> Result<Uri, String> {
    let shown = request.shown();
    let uri: Uri = request
        .url
        .parse()
        .map_err(|error| format!("the URL {shown:?}: {error}"))?;
    let has_scheme = [&Scheme::HTTPS, &Scheme::HTTP]
        .map(Some)
        .contains(&uri.scheme());
    if !has_scheme || uri.host().is_none_or(str::is_empty) {
        return Err(format!(
            "the URL {shown:?} must begin with https:// or http:// and a host"
        ));
    }
    Ok(uri)
}

fn get(request: &HttpRequest, uri: Uri) -> Result<Request<Full<Bytes>>, String> {
    let mut built = Request::get(uri);
    let has_agent = request
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
    if !has_agent {
        built = built.header(USER_AGENT, AGENT);
    }
    for (name, value) in &request.headers {
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| format!("the value of the field {name:?} is not valid"))?;
        built = built.header(name, value);
    }
    built
        .body(Full::default())
        .map_err(|error| format!("the request: {error}"))
}

async fn answer(response: Response<Incoming>) -> Result<HttpAnswer, CallError> {
    let status = response.status().as_u16();
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined = headers.entry(name.as_str().into()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    let body = body(response, MAX_BODY).await.map_err(|error| match error {
        BodyError::BrokeOff(why) => CallError::Outage(format!("the answer broke off: {why}")),
        BodyError::TooLarge => CallError::Refused("the answer has over 1 MiB".into()),
        BodyError::Endless => CallError::Outage(
            "the answer has neither Content-Length nor chunks: where it ends can't be told".into(),
        ),
    });
    Ok(HttpAnswer {
        status,
        headers,
        body: take(&mut body?),
    })
}

/// Tells a call that its server refused, as for a parameter that it can't read, from an
/// outage.
fn failed(error: &StoreError) -> CallError {
    let why = said(error);
    match error {
        StoreError::Refused(_)
        | StoreError::Conflict(_)
        | StoreError::Corrupt(_)
        | StoreError::Failed(_) => CallError::Refused(why),
        StoreError::Unavailable(_) | StoreError::TimedOut(_) | StoreError::Overloaded => {
            CallError::Outage(why)
        }
    }
}

/// Returns why a call failed, without calling the server a store.
fn said(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable(why)
        | StoreError::Failed(why)
        | StoreError::Corrupt(why)
        | StoreError::Conflict(why)
        | StoreError::Refused(why) => why.to_string(),
        StoreError::TimedOut(limit) => format!("no answer within {limit:?}"),
        StoreError::Overloaded => "too many calls are in flight".into(),
    }
}

/// URLs of Redis in use: each keeps connections.
const MAX_REDIS: usize = 16;
/// Bytes of an answer of HTTP: as many as a value of Redis.
const MAX_BODY: usize = 1 << 20;
const AGENT: &str = concat!("sekisho/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
