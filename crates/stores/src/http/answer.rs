//! The meaning of an answer of the endpoint.

use std::time::Duration;

use http::header::ETAG;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::freshness::Freshness;
use sekisho_https::BodyError;

/// An answer that means something.
pub(super) enum Fetched {
    /// 200, and its whole body.
    Bundle(Zeroizing<Vec<u8>>, Option<HeaderValue>, Freshness),
    /// 404 or 410.
    Absent(Freshness),
    /// 304: what is remembered under the tag that was sent holds.
    Unchanged(Freshness),
}

/// A failure, in words that hold neither token nor key.
#[derive(Debug)]
pub(super) enum Failure {
    /// The endpoint, for every host.
    Endpoint(String),
    /// The endpoint, for this host or for every host: it says 500 or above, or
    /// nothing in time.
    Host(String),
    /// The answer for this host. A client can choose the host, so this keeps
    /// nobody from asking for others.
    Answer(String),
}

/// Reads an answer to its end, so that its connection can be used again.
pub(super) async fn read(
    response: Response<Incoming>,
    is_conditional: bool,
) -> Result<Fetched, Failure> {
    let freshness = Freshness::of(response.headers());
    let fetched = match response.status() {
        StatusCode::OK => {
            let etag = response.headers().get(ETAG).and_then(tag);
            let bundle = sekisho_https::body(response, MAX_BODY)
                .await
                .map_err(unread)?;
            return Ok(Fetched::Bundle(bundle, etag, freshness));
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Fetched::Absent(freshness)),
        StatusCode::NOT_MODIFIED if is_conditional => Ok(Fetched::Unchanged(freshness)),
        status => Err(refused(status)),
    };
    drain(response).await;
    fetched
}

fn refused(status: StatusCode) -> Failure {
    let text = format!("it answered {status}");
    match status {
        StatusCode::UNAUTHORIZED => {
            Failure::Endpoint(format!("{text}: it wants another [store] token"))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => Failure::Endpoint(text),
        status if status.is_server_error() => Failure::Host(text),
        StatusCode::NOT_MODIFIED => Failure::Answer(format!("{text} to no condition")),
        status if status.is_redirection() => {
            Failure::Answer(format!("{text}, and redirects are not followed"))
        }
        _ => Failure::Answer(format!("{text}: 200 means found, 404 and 410 mean absent")),
    }
}

fn unread(error: BodyError) -> Failure {
    match error {
        BodyError::BrokeOff(why) => Failure::Endpoint(format!("its answer broke off: {why}")),
        BodyError::TooLarge => Failure::Answer(format!("its answer has over {MAX_BODY} bytes")),
        BodyError::Endless => Failure::Answer(
            "its answer has neither Content-Length nor chunks: where it is cut off can't be told \
             from its end"
                .into(),
        ),
    }
}

/// Reads a body that is of no use, if it is short and there already: dropped
/// before its end, it would take its HTTP/1.1 connection with it.
async fn drain(response: Response<Incoming>) {
    let body = Limited::new(response.into_body(), DRAINED);
    let _ = timeout(DRAIN, body.collect()).await;
}

/// A copy, so that it does not hold the head that it stands in.
fn tag(etag: &HeaderValue) -> Option<HeaderValue> {
    if etag.len() > MAX_TAG {
        return None;
    }
    HeaderValue::from_bytes(etag.as_bytes()).ok()
}

/// Ten certificates with an RSA key are a tenth of it.
const MAX_BODY: usize = 256 << 10;
/// Bytes of an error page that are read.
const DRAINED: usize = 64 << 10;
/// A new connection costs less than a longer wait for such a page.
const DRAIN: Duration = Duration::from_millis(100);
/// Tags are digests or numbers.
const MAX_TAG: usize = 512;
