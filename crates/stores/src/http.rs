//! A store behind an endpoint of HTTP: `https://…/{host}`.

mod answer;
mod failing;
mod freshness;
mod memory;
mod template;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::result;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
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
use crate::fault::unavailable;
use crate::options::{Options, STORE_TIMEOUT};
use crate::pem_pair::{self, PairRead};
use sekisho_certs::credential::Secret;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};
use sekisho_https::{HttpsClient, Timeouts, roots};

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
            client: HttpsClient::new(tls, Timeouts::NEAR),
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
            let done = task.join_next().await.and_then(result::Result::ok);
            done.unwrap_or_else(|| Err(ended()))
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
        let (host, above) = (HostPattern::from(name), name.wildcard());
        let exact = pin!(self.ask(host.clone(), until));
        let beside = pin!(async {
            match &above {
                Some(above) => self.ask(above.clone(), until).await,
                None => Ok(PairRead::Answer(Answer::absent())),
            }
        });
        let (exact, beside) = match select(exact, beside).await {
            Either::Left((exact, beside)) if is_absent(&exact) => (exact, beside.await),
            Either::Left((exact, _)) => return self.blamed(&host, exact),
            Either::Right((beside, exact)) => (exact.await, beside),
        };
        match &above {
            Some(above) if is_absent(&exact) => self.blamed(above, beside),
            _ => self.blamed(&host, exact),
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

    /// Sends one request, or none if a remembered answer is fresh.
    ///
    /// Dropped, a request that waits for its permit is taken back. A request under way
    /// goes on to its end: over HTTP/1.1 its connection would be lost with it, and its
    /// answer may be remembered.
    async fn ask(self: &Arc<Self>, host: HostPattern, until: Instant) -> Result<PairRead> {
        let kept = self.memory.get(&host);
        if let Some(answer) = kept.as_ref().and_then(|kept| kept.fresh()) {
            return Ok(PairRead::Answer(answer));
        }
        let get = self.get(&host, kept.as_deref())?;
        let permit = timeout_at(until, self.client.permit()).await;
        let permit = permit.map_err(|_| StoreError::Overloaded)?;
        let endpoint = Arc::clone(self);
        let exchange = tokio::spawn(async move {
            let _permit = permit;
            let fetched = endpoint.fetch(&get, until).await;
            let fetched = fetched.map_err(|failure| endpoint.failed(&host, failure))?;
            endpoint.failing.answered();
            Ok(endpoint.reading(&host, fetched, kept.as_deref()))
        });
        exchange.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn fetch(
        &self,
        get: &Request<Full<Bytes>>,
        until: Instant,
    ) -> result::Result<Fetched, Failure> {
        let is_conditional = get.headers().contains_key(IF_NONE_MATCH);
        let exchange = async {
            let response = self.client.send(get).await.map_err(Failure::Endpoint)?;
            answer::read(response, is_conditional).await
        };
        let late = |_| {
            let text = format!("no answer within {:?}", self.deadline);
            Err(Failure::Host(text))
        };
        timeout_at(until, exchange).await.unwrap_or_else(late)
    }

    fn reading(&self, host: &HostPattern, fetched: Fetched, kept: Option<&Kept>) -> PairRead {
        let (found, etag, freshness) = match fetched {
            Fetched::Bundle(bundle, etag, freshness) => match pem_pair::bundle(host, &bundle) {
                Ok(found) => (Some(Box::new(found)), etag, freshness),
                Err(why) => {
                    self.memory.forget(host);
                    return PairRead::Unfit(self.describe(host, &why));
                }
            },
            Fetched::Absent(freshness) => (None, None, freshness),
            Fetched::Unchanged(freshness) => {
                let kept = kept.expect("only what is remembered has a tag to send");
                kept.renewed(freshness)
            }
        };
        PairRead::Answer(self.memory.keep(host, found, etag, freshness))
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
        let url = self.template.url(host);
        match failure {
            Failure::Endpoint(why) => unavailable(format!("{url}: {why}")),
            Failure::Host(why) => StoreError::Failed(format!("{url}: {why}").into()),
            Failure::Answer(why) => StoreError::Corrupt(self.describe(host, &why).into()),
        }
    }

    fn describe(&self, host: &HostPattern, why: &str) -> String {
        format!("host {host}: {}: {why}", self.template.url(host))
    }
}

fn is_absent(reading: &Result<PairRead>) -> bool {
    matches!(reading, Ok(PairRead::Answer(Answer { found: None, .. })))
}

fn ended() -> StoreError {
    unavailable("the runtime of its connections has ended")
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
