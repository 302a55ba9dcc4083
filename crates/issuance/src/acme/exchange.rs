//! Requests to one CA: bounded in time and size, over HTTPS alone. What instant-acme
//! drops of an answer is kept beside it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, WeakShared};
use http::header::{CONTENT_TYPE, HeaderValue, LINK, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use sekisho_certs::lock;
use tokio::time::{Instant, sleep, timeout};

use super::directory::Directory;
use super::error::Fault;
use super::nonces::{Nonces, REPLAY_NONCE};
use super::problem::Problem;
use super::retry_after;
use sekisho_https::{BodyError, HttpsClient, body};

/// State that all requests to a CA share.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) client: HttpsClient,
    /// URL of the directory.
    pub(super) directory: String,
    /// Whom the client trusts, for errors.
    pub(super) trusted: String,
    /// For one request with its answer.
    pub(super) deadline: Duration,
    pub(super) read: Mutex<Read>,
    pub(super) nonces: Nonces,
}

/// The directory.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Its text, and when it was read.
    last: Option<(Instant, Bytes)>,
    /// Read under way, shared by all who wait for it (singleflight). It ends with the
    /// last of them.
    flight: Option<WeakShared<Flight>>,
}

type Flight = BoxFuture<'static, Result<Bytes, Fault>>;

impl Transport {
    /// Returns the directory; reads it anew after [`DIRECTORY_AGE`]. All who wait share
    /// one request and its failure: a CA that hangs would else get one for each order.
    pub(super) async fn directory(self: &Arc<Self>) -> Result<Bytes, Fault> {
        let flight = {
            let mut read = lock(&self.read);
            if let Some((at, json)) = &read.last
                && at.elapsed() < DIRECTORY_AGE
            {
                return Ok(json.clone());
            }
            let flight = read.flight.as_ref().and_then(WeakShared::upgrade);
            flight.unwrap_or_else(|| {
                let transport = Arc::clone(self);
                let flight = async move { transport.read_directory().await };
                let flight = flight.boxed().shared();
                read.flight = flight.downgrade();
                flight
            })
        };
        flight.await
    }

    async fn read_directory(&self) -> Result<Bytes, Fault> {
        let done = async {
            let json = self.get(&self.directory).await?.into_body();
            Directory::parse(&json)?;
            Ok(json)
        };
        let done = done.await;
        let mut read = lock(&self.read);
        read.flight = None;
        if let Ok(json) = &done {
            read.last = Some((Instant::now(), json.clone()));
        }
        done
    }

    /// Reads a resource that needs no account.
    pub(super) async fn get(&self, url: &str) -> Result<Response<Bytes>, Fault> {
        let request = Request::get(url).body(Full::default());
        let request = request.map_err(|error| Fault::Malformed(format!("{url:?}: {error}")))?;
        let answer = self.send(request).await?;
        match refusal(&answer) {
            Some(fault) => Err(fault),
            None => Ok(answer),
        }
    }

    /// Sends a request of instant-acme. A nonce that is kept stands in for a new one
    /// (HEAD). A CA that is busy is asked for a new nonce, and for a new order, again after
    /// the pause that it names. If it has taken the nonce of the order, instant-acme signs
    /// that anew.
    async fn exchange(
        self: &Arc<Self>,
        request: &Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Fault> {
        let is_new_nonce = request.method() == Method::HEAD;
        let mut pauses = 0;
        loop {
            if is_new_nonce && let Some(nonce) = self.nonces.next().await {
                let mut answer = Response::default();
                answer.headers_mut().insert(REPLAY_NONCE, nonce);
                return Ok(answer);
            }
            let answer = self.send(request.clone()).await?;
            let pause = short_pause(&answer).filter(|_| pauses < MOST_PAUSES);
            match pause {
                Some(pause) if is_new_nonce || self.is_new_order(request).await => {
                    sleep(pause).await;
                }
                _ => return Ok(answer),
            }
            pauses += 1;
        }
    }

    async fn is_new_order(self: &Arc<Self>, request: &Request<Full<Bytes>>) -> bool {
        let directory = self.directory().await;
        let directory = directory.and_then(|json| Directory::parse(&json));
        directory.is_ok_and(|directory| *request.uri() == *directory.new_order)
    }

    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Fault> {
        let uri = request.uri().clone();
        // A forged answer on its way could put another directory in place.
        if uri.scheme_str() != Some("https") {
            return Err(Fault::Malformed(format!("{uri} is not https")));
        }
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        let host = uri.authority().map_or("", |host| host.as_str());
        // The wait for a permit is no fault of the CA.
        let _permit = self.client.permit().await;
        let answered = timeout(self.deadline, self.answer(&request, host)).await;
        answered.unwrap_or_else(|_| {
            let seconds = self.deadline.as_secs_f32();
            let late = format!("{host} did not answer within {seconds} s");
            Err(Fault::Unreachable(late))
        })
    }

    async fn answer(
        &self,
        request: &Request<Full<Bytes>>,
        host: &str,
    ) -> Result<Response<Bytes>, Fault> {
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|why| match why.contains(UNTRUSTED) {
            true => Fault::Untrusted(format!("{host} is not trusted by {}: {why}", self.trusted)),
            false => Fault::Unreachable(format!("{host}: {why}")),
        })?;
        let (status, fields) = (answer.status(), answer.headers().clone());
        let bytes = body(answer, MAX_ANSWER)
            .await
            .map_err(|error| match error {
                BodyError::BrokeOff(why) => Fault::Unreachable(format!("{host}: {why}")),
                BodyError::TooLarge => Fault::Malformed(format!("over {MAX_ANSWER} bytes")),
                BodyError::Endless => Fault::Malformed("it has no length".into()),
            })?;
        let mut whole = Response::new(Bytes::copy_from_slice(&bytes));
        *whole.status_mut() = status;
        *whole.headers_mut() = fields;
        Ok(whole)
    }
}

/// Client of one account or order, whose requests follow one another.
pub(super) struct Exchange {
    transport: Arc<Transport>,
    noted: Noted,
}

/// Parts of the last answer that instant-acme drops.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted(Arc<Mutex<Dropped>>);

#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Field `Retry-After`.
    pub(super) retry_after: Option<Duration>,
    /// URLs of alternate chains (RFC 8555, section 7.4.2).
    pub(super) alternates: Vec<String>,
    /// The body, if it is a chain.
    pub(super) chain: Option<Bytes>,
}

impl Noted {
    /// Takes what the last answer left.
    pub(super) fn take(&self) -> Dropped {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Exchange {
    pub(super) fn new(transport: &Arc<Transport>) -> (Box<Self>, Noted) {
        let (transport, noted) = (Arc::clone(transport), Noted::default());
        let own = noted.clone();
        (Box::new(Self { transport, noted }), own)
    }
}

impl HttpClient for Exchange {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (transport, noted) = (Arc::clone(&self.transport), self.noted.clone());
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let is_new_nonce = head.method == Method::HEAD;
            let answer = if head.uri == *transport.directory {
                transport.directory().await.map(Response::new)
            } else {
                let Ok(body) = body.collect().await;
                let body = Full::new(body.to_bytes());
                transport.exchange(&Request::from_parts(head, body)).await
            };
            let mut answer = answer.map_err(given_up)?;
            let refusal = refusal(&answer);
            // instant-acme sends it again with a fresh nonce (RFC 8555, section 6.5).
            let is_bad_nonce = refusal
                .as_ref()
                .is_some_and(|fault| fault.is_one_of(&["badNonce"]));
            if is_bad_nonce {
                transport.nonces.forget();
            }
            if !is_new_nonce {
                transport.nonces.put(answer.headers_mut());
            }
            match refusal {
                Some(_) if is_bad_nonce => {}
                Some(fault) => return Err(given_up(fault)),
                None => *lock(&noted.0) = dropped(&answer),
            }
            let (mut parts, body) = answer.into_parts();
            // instant-acme would add any number of seconds to its clock, and panic.
            parts.headers.remove(RETRY_AFTER);
            let body = Box::new(body);
            Ok(BytesResponse { parts, body })
        })
    }
}

/// Carries a fault through instant-acme.
fn given_up(fault: Fault) -> Error {
    Error::Other(Box::new(fault))
}

/// Returns the error that an answer is.
pub(super) fn refusal(answer: &Response<Bytes>) -> Option<Fault> {
    (!answer.status().is_success()).then(|| Fault::Refused {
        status: answer.status().as_u16(),
        problem: Problem::parse(answer.body()).map(Box::new),
        retry_after: retry_after::of(answer.headers()),
    })
}

/// Returns the pause that a CA with too many requests asks for; none if it is a long one,
/// or the answer says something else.
fn short_pause(answer: &Response<Bytes>) -> Option<Duration> {
    let is_busy = answer.status() == StatusCode::SERVICE_UNAVAILABLE;
    let pause = retry_after::of(answer.headers()).filter(|_| is_busy);
    pause.filter(|pause| *pause <= LONGEST_PAUSE)
}

fn dropped(answer: &Response<Bytes>) -> Dropped {
    let fields = answer.headers();
    let kind = fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_chain = kind.is_some_and(|kind| kind.starts_with(CHAIN));
    Dropped {
        retry_after: retry_after::of(fields),
        alternates: alternates(fields),
        chain: is_chain.then(|| answer.body().clone()),
    }
}

/// Reads `Link: <URL>;rel="alternate"` (RFC 8288, section 3).
fn alternates(fields: &HeaderMap) -> Vec<String> {
    let links = fields.get_all(LINK).into_iter();
    let links = links.filter_map(|link| link.to_str().ok());
    let url = |link: &str| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_alternate = parameters.split(';').any(|parameter| {
            let parameter = parameter.trim();
            parameter == "rel=alternate" || parameter == "rel=\"alternate\""
        });
        is_alternate.then(|| url.to_owned())
    };
    let all = links.flat_map(|links| links.split(',')).filter_map(url);
    all.take(MAX_CHAINS).collect()
}

const AGENT: &str = concat!("sekisho/", env!("CARGO_PKG_VERSION"), " instant-acme");
/// Terms, profiles and endpoints of a CA change rarely, and each step of each order
/// would read them.
const DIRECTORY_AGE: Duration = Duration::from_secs(60 * 60);
/// A chain of ten certificates has 20 KiB.
const MAX_ANSWER: usize = 128 << 10;
/// Alternate chains that are looked at.
const MAX_CHAINS: usize = 8;
/// Pauses within one request, and the longest: a visitor waits 20 s for the order. After
/// more, the order is tried again later.
const MOST_PAUSES: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CHAIN: &[u8] = b"application/pem-certificate-chain";
/// Text of rustls for certificates that no authority vouches for, or not now.
const UNTRUSTED: &str = "invalid peer certificate";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternates_are_read_from_all_links() {
        let mut fields = HeaderMap::new();
        for link in [
            r#"<https://ca.example/dir>;rel="index""#,
            r#"<https://ca.example/1>;rel="alternate""#,
            r#"<https://ca.example/2>; title=x; rel=alternate, <https://ca.example/3>;rel="alternate""#,
            "https://ca.example/4;rel=alternate",
            "<https://ca.example/5;rel=alternate",
        ] {
            fields.append(LINK, link.parse().unwrap());
        }
        let found = alternates(&fields);
        let expected = ["1", "2", "3"].map(|number| format!("https://ca.example/{number}"));
        assert_eq!(found, expected);
    }
}
