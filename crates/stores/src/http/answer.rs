//! What an answer of the endpoint means.

use std::time::Duration;

use http::header::{ETAG, TRANSFER_ENCODING};
use http::{HeaderValue, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::connect::told;
use super::freshness::Freshness;

/// An answer that means something.
pub(super) enum Fetched {
    /// 200, and its whole body.
    Bundle(Zeroizing<Vec<u8>>, Option<HeaderValue>, Freshness),
    /// 404 or 410.
    Absent(Freshness),
    /// 304: what is remembered under the tag that was sent holds.
    Unchanged(Freshness),
}

/// What failed, in words that hold neither token nor key.
#[derive(Debug)]
pub(super) enum Failure {
    /// The endpoint, for every host.
    Endpoint(String),
    /// The endpoint, for this host or for every host: it says 500 or above.
    Server(String),
    /// Its answer for this one. A client can choose the host, so this keeps
    /// nobody from asking for others.
    Answer(String),
}

/// Reads an answer; also says whether all of it was read, so that its
/// connection can be used again.
pub(super) async fn read(
    response: Response<Incoming>,
    is_conditional: bool,
) -> (Result<Fetched, Failure>, bool) {
    let freshness = Freshness::of(response.headers());
    let fetched = match response.status() {
        StatusCode::OK => {
            let etag = response.headers().get(ETAG).and_then(tag);
            let bundle = bundle(response).await;
            let is_read = bundle.is_ok();
            return (
                bundle.map(|bundle| Fetched::Bundle(bundle, etag, freshness)),
                is_read,
            );
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Fetched::Absent(freshness)),
        StatusCode::NOT_MODIFIED if is_conditional => Ok(Fetched::Unchanged(freshness)),
        status => Err(refused(status)),
    };
    (fetched, drained(response).await)
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
        status if status.is_server_error() => Failure::Server(text),
        StatusCode::NOT_MODIFIED => Failure::Answer(format!("{text} to no condition")),
        status if status.is_redirection() => {
            Failure::Answer(format!("{text}, and redirects are not followed"))
        }
        _ => Failure::Answer(format!("{text}: 200 means found, 404 and 410 mean absent")),
    }
}

/// The body, in memory that is wiped and that never grows: growing would leave
/// copies of a key behind. What the connection itself had in its buffers is
/// not wiped.
async fn bundle(response: Response<Incoming>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if !tells_its_end(&response) {
        let text = "its answer has neither Content-Length nor chunks: where it is cut off \
                    can't be told from its end";
        return Err(Failure::Answer(text.into()));
    }
    let mut body = response.into_body();
    let room = match body.size_hint().exact() {
        None => MAX_BODY,
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    if room > MAX_BODY {
        return Err(too_large());
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Failure::Endpoint(format!("its answer broke off: {}", told(&error)))
        })?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if data.len() > room - bytes.len() {
            return Err(too_large());
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// HTTP/2 always does.
fn tells_its_end(response: &Response<Incoming>) -> bool {
    response.version() == Version::HTTP_2
        || response.body().size_hint().exact().is_some()
        || response.headers().contains_key(TRANSFER_ENCODING)
}

/// Reads what nobody wants, if it is short and there already.
async fn drained(response: Response<Incoming>) -> bool {
    let mut body = response.into_body();
    let drain = async {
        let mut left = DRAINED;
        while let Some(frame) = body.frame().await {
            let size = frame.map(|frame| frame.data_ref().map_or(0, bytes::Bytes::len));
            match size.ok().and_then(|size| left.checked_sub(size)) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    timeout(DRAIN, drain).await.unwrap_or(false)
}

/// A copy, so that it does not hold the head that it stands in.
fn tag(etag: &HeaderValue) -> Option<HeaderValue> {
    if etag.len() > MAX_TAG {
        return None;
    }
    HeaderValue::from_bytes(etag.as_bytes()).ok()
}

fn too_large() -> Failure {
    Failure::Answer(format!("its answer has over {MAX_BODY} bytes"))
}

/// Ten certificates with an RSA key are a tenth of it.
const MAX_BODY: usize = 256 << 10;
/// What a page of an error has, at most.
const DRAINED: usize = 64 << 10;
/// A new connection costs less than a long wait for a page nobody reads.
const DRAIN: Duration = Duration::from_millis(100);
/// Tags are digests or numbers.
const MAX_TAG: usize = 512;
