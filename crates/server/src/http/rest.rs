//! Body of a request that is answered without it, over HTTP/2.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use http::Version;
use http::header::EXPECT;
use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::timeouts::ConnTimeouts;

/// Returns whether [`discard`] is due before an answer that does not need the body.
///
/// An answer that is sent before the end of its request makes h2 reset the stream, and
/// ignore what still comes of it: the client sees an error behind a good answer, and its
/// own errors pass unseen. Over HTTP/1.1 hyper discards the body. A client that expects
/// 100 sends nothing before the answer.
pub(crate) fn is_open(head: &Parts, body: &Incoming) -> bool {
    head.version >= Version::HTTP_2 && !body.is_end_stream() && !head.headers.contains_key(EXPECT)
}

/// Reads the body to its end, within bounds. Beyond either, the stream is reset behind
/// the answer.
pub(crate) async fn discard(mut body: Incoming, timeouts: &ConnTimeouts) {
    let mut left = MOST_BYTES;
    let reading = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, bytes::Bytes::len);
            timeouts.taken(bytes);
            let Some(rest) = left.checked_sub(bytes) else {
                return;
            };
            left = rest;
        }
    };
    let _ = timeout(LONGEST, reading).await;
}

/// Bytes that are discarded: most forms are smaller.
const MOST_BYTES: usize = 64 * 1024;
/// More than the round trip in which a client sends its window.
const LONGEST: Duration = Duration::from_secs(1);
