//! Body of a request that is answered without it, over HTTP/2.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use http::header::EXPECT;
use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::limits::timeouts::ConnTimeouts;

/// Returns whether [`discard`] is due before an answer that does not need the body.
///
/// If nobody reads the body, h2 resets the stream behind the answer, and ignores what still
/// comes of it: the client sees an error behind a good answer, and its own errors pass
/// unseen. Over HTTP/1.1 hyper discards the body. A client that expects
/// 100 sends nothing before the answer.
pub(crate) fn is_open(head: &Parts, body: &Incoming) -> bool {
    head.version >= Version::HTTP_2 && !body.is_end_stream() && !head.headers.contains_key(EXPECT)
}

/// Reads the body to its end, within bounds. Beyond either, the stream is reset behind the
/// answer; but if the answer is that the body `is_too_large`, the rest is discarded first.
pub(crate) async fn discard(mut body: Incoming, is_too_large: bool, timeouts: &Arc<ConnTimeouts>) {
    if !read(&mut body, timeouts, MOST_BYTES, LONGEST).await && is_too_large {
        discard_behind(body, timeouts);
    }
}

/// Discards the body while its answer is sent, and behind that, within bounds. Beyond
/// either, the stream is reset.
///
/// Some clients, as Python's httpx, read no answer before they have sent all, and never
/// learn of a reset while they wait for a window.
pub(crate) fn discard_behind(mut body: Incoming, timeouts: &Arc<ConnTimeouts>) {
    let timeouts = Arc::clone(timeouts);
    tokio::spawn(async move {
        read(&mut body, &timeouts, MOST_BYTES_BEHIND, LONGEST_BEHIND).await;
    });
}

/// Reads at most `left` bytes of the body, for at most `longest`. Returns whether it ended.
async fn read(
    body: &mut Incoming,
    timeouts: &ConnTimeouts,
    mut left: usize,
    longest: Duration,
) -> bool {
    let reading = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, bytes::Bytes::len);
            timeouts.taken(bytes);
            let Some(rest) = left.checked_sub(bytes) else {
                return false;
            };
            left = rest;
        }
        true
    };
    timeout(longest, reading).await.unwrap_or(false)
}

/// Bytes that are discarded before an answer: most forms are smaller.
const MOST_BYTES: usize = 64 * 1024;
/// More than the round trip in which a client sends them.
const LONGEST: Duration = Duration::from_secs(1);

/// Bytes that are discarded behind the head of an answer: of a file somewhat larger than
/// the default `body_limit`, all.
const MOST_BYTES_BEHIND: usize = 256 << 20;
/// Time in which a client with 100 Mbit/s sends them.
const LONGEST_BEHIND: Duration = Duration::from_secs(30);
