//! A store behind an endpoint of HTTP: `https://…/{host}`.

mod answer;
mod failing;
mod freshness;
mod memory;
mod template;
#[cfg(test)]
mod tests;

use std::result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Request};
use http_body_util::Full;
use rustls::RootCertStore;
use rustls_pki_types::ServerName;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use self::answer::{Failure, Fetched};
use self::failing::Failing;
use self::memory::{Kept, Memory};
pub use self::template::Template;
use crate::https::HttpsClient;
use crate::open::Options;
use crate::pem_pair::{self, PairRead};
use crate::roots;
use crate::tiers::STORE_TIMEOUT;
use sekisho_certs::credential::Secret;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};

/// An endpoint that answers GET with a host's PEM bundle: its chain and its key,
/// told apart by their labels. The endpoint is only read.
///
/// - 200 means found; 404 and 410 mean absent. Everything else is a failure:
///   redirects, what is over 256 KiB, cut off, late, or no pair that fits.
/// - A status of 500 and above, and no answer in time, are the host's failure,
///   until four hosts in a row met one without an answer for any other between.
/// - The name and the wildcard above it are asked for at once, so that an
///   answer takes one round trip, also that of an absent name. The
///   wildcard's answer is not waited for where the name's own is there.
/// - `Cache-Control` says for how long an answer holds. Within that time a
///   wildcard is not asked for again by each name below it.
/// - An answer with an `ETag` is asked for by that tag (RFC 9110, section
///   13.1.2), and not at all within its time.
/// - Connections are kept: one, if the endpoint speaks HTTP/2, else up to 64.
#[derive(Debug)]
pub struct Http {
    endpoint: Arc<Endpoint>,
    runtime: Handle,
}

impl Http {
    /// Connects to nothing yet. All connections are driven by `runtime`. A
    /// lookup may take until `deadline`, its waits for a connection included.
    ///
    /// # Errors
    /// [`StoreError::Refused`] says what is wrong with CA or token.
    pub fn new(
        template: Template,
        options: &Options,
        deadline: Duration,
        runtime: Handle,
    ) -> Result<Self> {
        let refused = |why: &str| StoreError::Refused(format!("{template}: {why}").into());
        let roots = match template.is_tls {
            true => roots::load(options.ca.as_deref(), "[store] ca"),
            false => Ok(RootCertStore::empty()),
        };
        let tls = roots.and_then(|roots| roots::client(roots, None));
        let tls = tls.map_err(|why| StoreError::Refused(why.into()))?;
        ServerName::try_from(template.host.as_str()).map_err(|_| refused("it names no server"))?;
        let authorization = match &options.token {
            None => None,
            Some(token) => Some(
                bearer(token)
                    .ok_or_else(|| refused("the token is not of visible ASCII characters"))?,
            ),
        };
        let endpoint = Endpoint {
            client: HttpsClient::new(tls),
            authorization,
            memory: Memory::new(MEMORY),
            failing: Failing::default(),
            deadline,
            template,
        };
        Ok(Self {
            endpoint: Arc::new(endpoint),
            runtime,
        })
    }
}

impl Store for Http {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            let (endpoint, name) = (Arc::clone(&self.endpoint), name.clone());
            let work = async move {
                let until = Instant::now() + endpoint.deadline;
                pem_pair::read_until_fit(|| endpoint.read(&name, until)).await
            };
            let mut task = JoinSet::new();
            task.spawn_on(work, &self.runtime);
            end(task).await
        })
    }
}

#[derive(Debug)]
struct Endpoint {
    template: Template,
    authorization: Option<HeaderValue>,
    client: HttpsClient,
    memory: Memory,
    failing: Failing,
    deadline: Duration,
}

impl Endpoint {
    /// Reads the exact name's bundle, else that of the wildcard above.
    async fn read(self: &Arc<Self>, name: &HostName, until: Instant) -> Result<PairRead> {
        let above = name
            .wildcard()
            .map(|above| WildcardRequest::start(self, above, until));
        let host = HostPattern::from(name);
        let exact = self.ask(host.clone(), until, || ()).await;
        if !matches!(exact, Ok(PairRead::Answer(Answer { found: None, .. }))) {
            if let Some(above) = above {
                above.leave();
            }
            return self.blamed(&host, exact);
        }
        match above {
            Some(above) => {
                let host = above.host.clone();
                self.blamed(&host, end(above.answer).await)
            }
            None => Ok(PairRead::Answer(Answer::absent())),
        }
    }

    /// Blames the endpoint for a failure that several hosts in a row have met.
    fn blamed(&self, host: &HostPattern, reading: Result<PairRead>) -> Result<PairRead> {
        match reading {
            Err(StoreError::Failed(why)) if self.failing.is_endpoint(host) => {
                Err(StoreError::Unavailable(why))
            }
            other => other,
        }
    }

    /// Sends one request, or none if a remembered answer is fresh. `begun` is
    /// called when the request has its turn.
    async fn ask(
        &self,
        host: HostPattern,
        until: Instant,
        begun: impl FnOnce(),
    ) -> Result<PairRead> {
        let kept = self.memory.get(&host);
        if let Some(answer) = kept.as_ref().and_then(|kept| kept.fresh()) {
            return Ok(PairRead::Answer(answer));
        }
        let get = self.get(&host, kept.as_deref())?;
        let turn = timeout_at(until, self.client.turn()).await;
        let _turn = turn.map_err(|_| StoreError::Overloaded)?;
        begun();
        let is_conditional = get.headers().contains_key(IF_NONE_MATCH);
        let exchange = async {
            let response = self.client.send(&get).await.map_err(Failure::Endpoint)?;
            answer::read(response, is_conditional).await
        };
        let late = |_| {
            Err(Failure::Host(format!(
                "no answer within {:?}",
                self.deadline
            )))
        };
        let fetched = timeout_at(until, exchange).await.unwrap_or_else(late);
        let fetched = fetched.map_err(|failure| self.failed(&host, failure))?;
        self.failing.answered();
        Ok(self.reading(&host, fetched, kept.as_deref()))
    }

    fn reading(&self, host: &HostPattern, fetched: Fetched, kept: Option<&Kept>) -> PairRead {
        let (bundle, etag, freshness) = match fetched {
            Fetched::Bundle(bundle, etag, freshness) => (bundle, etag, freshness),
            Fetched::Absent(freshness) => {
                return PairRead::Answer(self.memory.absent(host, freshness));
            }
            Fetched::Unchanged(freshness) => {
                let kept = kept.expect("only what is remembered has a tag to send");
                return PairRead::Answer(self.memory.renewed(host, kept, freshness));
            }
        };
        match pem_pair::bundle(host, &bundle) {
            Ok(found) => PairRead::Answer(self.memory.found(found, etag, freshness)),
            Err(why) => {
                self.memory.forget(host);
                PairRead::Unfit(self.describe(host, &why))
            }
        }
    }

    fn get(&self, host: &HostPattern, kept: Option<&Kept>) -> Result<Request<Full<Bytes>>> {
        let mut get = Request::get(self.template.url(host))
            .header(USER_AGENT, AGENT)
            .header(ACCEPT_ENCODING, "identity");
        if let Some(authorization) = &self.authorization {
            get = get.header(AUTHORIZATION, authorization);
        }
        if let Some(etag) = kept.and_then(|kept| kept.etag.as_ref()) {
            get = get.header(IF_NONE_MATCH, etag);
        }
        get.body(Full::default())
            .map_err(|error| self.failed(host, Failure::Answer(error.to_string())))
    }

    fn failed(&self, host: &HostPattern, failure: Failure) -> StoreError {
        match failure {
            Failure::Endpoint(why) => {
                StoreError::Unavailable(format!("{}: {why}", self.template.url(host)).into())
            }
            Failure::Host(why) => {
                StoreError::Failed(format!("{}: {why}", self.template.url(host)).into())
            }
            Failure::Answer(why) => StoreError::Corrupt(self.describe(host, &why).into()),
        }
    }

    fn describe(&self, host: &HostPattern, why: &str) -> String {
        format!("host {host}: {}: {why}", self.template.url(host))
    }
}

/// The request for the wildcard, beside the one for the name.
struct WildcardRequest {
    host: HostPattern,
    /// One task, which is aborted when this is dropped.
    answer: JoinSet<Result<PairRead>>,
    begun: Arc<AtomicBool>,
}

impl WildcardRequest {
    fn start(endpoint: &Arc<Endpoint>, above: HostPattern, until: Instant) -> Self {
        let begun = Arc::new(AtomicBool::new(false));
        let (endpoint, mark) = (Arc::clone(endpoint), Arc::clone(&begun));
        let host = above.clone();
        let mut answer = JoinSet::new();
        answer.spawn(async move {
            let begun = || mark.store(true, Ordering::Relaxed);
            endpoint.ask(above, until, begun).await
        });
        Self {
            host,
            answer,
            begun,
        }
    }

    /// Gives up the answer. A request under way goes on to its end: over HTTP/1.1
    /// its connection would be lost with it, and its answer may be remembered. A
    /// request that waits for its turn is taken back.
    fn leave(mut self) {
        if self.begun.load(Ordering::Relaxed) {
            self.answer.detach_all();
        }
    }
}

/// Waits for the set's one task.
async fn end<T: 'static>(mut task: JoinSet<Result<T>>) -> Result<T> {
    let ended = task.join_next().await.and_then(result::Result::ok);
    ended.unwrap_or_else(|| {
        let text = "the runtime of its connections has ended";
        Err(StoreError::Unavailable(text.into()))
    })
}

fn bearer(token: &Secret) -> Option<HeaderValue> {
    let text = [b"Bearer ", token.expose()].concat();
    let text = Zeroizing::new(text);
    if !token.expose().iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let mut value = HeaderValue::from_bytes(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Of a lookup: less than the two seconds of a store call, which can't tell a
/// host that hangs from an endpoint that does.
pub(crate) const DEADLINE: Duration = Duration::from_millis(1900);
const _: () = assert!(DEADLINE.as_millis() < STORE_TIMEOUT.as_millis());
const AGENT: &str = concat!("sekisho/", env!("CARGO_PKG_VERSION"));
/// Bytes for about four thousand bundles. Others are asked for without a tag.
const MEMORY: usize = 16 << 20;
