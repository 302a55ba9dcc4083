use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};

use flate2::read::GzDecoder;
use flate2::{Decompress, FlushDecompress};
use http::HeaderValue;

use super::*;
use crate::coding::encode::compress;
use crate::site::Coding;

/// Step of a body that a test plays.
enum Step {
    Data(Bytes),
    /// The body has to be waited for.
    Pause,
    Trailers,
    Error,
}

struct Played(VecDeque<Step>);

impl http_body::Body for Played {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.0.pop_front() {
            Some(Step::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Step::Pause) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Step::Trailers) => Some(Ok(Frame::trailers(trailers()))),
            Some(Step::Error) => Some(Err(io::ErrorKind::ConnectionReset.into())),
            None => None,
        })
    }
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"a\""))])
}

fn tenant() -> Tenant {
    Tenant::parse("acme").unwrap()
}

fn coded(coders: &Arc<Coders>, steps: impl IntoIterator<Item = Step>) -> Body {
    coded_at(4, coders, steps)
}

fn coded_at(level: u8, coders: &Arc<Coders>, steps: impl IntoIterator<Item = Step>) -> Body {
    let prefix = IpAddr::from(Ipv4Addr::LOCALHOST).into();
    let encoder = coders.try_encoder(prefix, level).unwrap();
    let body = Body::passing(Played(steps.into_iter().collect()));
    compress_stream(body, encoder, Arc::clone(coders), tenant())
}

fn data(bytes: impl Into<Bytes>) -> Step {
    Step::Data(bytes.into())
}

fn gunzip(coded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    GzDecoder::new(coded).read_to_end(&mut decoded).unwrap();
    decoded
}

/// Text that shrinks.
fn text(bytes: usize) -> String {
    let texts = (0..bytes).map(|number| format!("{number} texts, "));
    let mut text: String = texts.collect();
    text.truncate(bytes);
    text
}

#[tokio::test]
async fn a_body_decodes_whatever_its_pieces() {
    let coders = Arc::new(Coders::new());
    for sizes in [
        &[][..],
        &[0],
        &[1],
        &[4096, 4097],
        &[100_000, 1, 200_000],
        &[1000; 100],
    ] {
        let pieces: Vec<_> = sizes.iter().map(|size| text(*size)).collect();
        let body = coded(&coders, pieces.iter().cloned().map(data));
        let sent = body.collect().await.unwrap();
        assert!(sent.trailers().is_none());
        let sent = sent.to_bytes();
        assert_eq!(gunzip(&sent), pieces.concat().into_bytes(), "{sizes:?}");
        assert!(sent.len() <= 64 + pieces.concat().len() / 2, "{sizes:?}");
    }
}

/// Frames that a client gets one by one, each of which it can decode.
#[tokio::test]
async fn a_pause_is_flushed_once() {
    let coders = Arc::new(Coders::new());
    let steps = [
        data("begun"),
        Step::Pause,
        Step::Pause,
        data(text(50_000)),
        Step::Pause,
        data("ended"),
    ];
    let mut body = coded(&coders, steps);
    let mut decoder = Decompress::new_gzip(15);
    let mut decoded = Vec::with_capacity(60_000);
    let mut ends = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.unwrap().into_data().unwrap();
        assert!(!frame.is_empty());
        let flush = FlushDecompress::Sync;
        decoder.decompress_vec(&frame, &mut decoded, flush).unwrap();
        ends.push(decoded.len());
    }
    assert!(ends.contains(&5), "{ends:?}");
    assert!(ends.contains(&50_005), "{ends:?}");
    assert_eq!(ends.last(), Some(&50_010));
    assert!(ends.len() <= 5, "{ends:?}");
}

#[tokio::test]
async fn trailers_pass_behind_the_whole_body() {
    let coders = Arc::new(Coders::new());
    for size in [0, 100, 50_000] {
        let body = coded(&coders, [data(text(size)), Step::Pause, Step::Trailers]);
        let sent = body.collect().await.unwrap();
        assert_eq!(sent.trailers(), Some(&trailers()));
        assert_eq!(gunzip(&sent.to_bytes()), text(size).into_bytes());
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_whole() {
    let coders = Arc::new(Coders::new());
    for size in [100, 50_000] {
        let steps = [
            data(text(size)),
            Step::Pause,
            Step::Error,
            data("never sent"),
        ];
        let (mut body, mut sent) = (coded(&coders, steps), Vec::new());
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(frame) => sent.extend(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(body.frame().await.is_none());
        let mut decoded = Vec::new();
        let read = GzDecoder::new(&*sent).read_to_end(&mut decoded);
        assert!(read.is_err());
        assert_eq!(decoded, text(size).into_bytes());
    }
}

async fn compress_whole(coders: Arc<Coders>, body: Bytes) -> Option<Option<Vec<u8>>> {
    let length = body.len();
    let work = move || compress(Coding::Gzip, 4, &body);
    coders.whole(&tenant(), (4, length), work).await
}

/// More bodies of its tenant want to be compressed than may wait.
#[tokio::test]
async fn a_stream_arrives_beside_a_crowd_of_bodies() {
    let coders = Arc::new(Coders::new());
    let piece = Bytes::from(text(5000));
    let whole = || compress_whole(Arc::clone(&coders), piece.clone());
    let crowd: Vec<_> = (0..2000).map(|_| tokio::spawn(whole())).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let sent = coded(&coders, (0..20).map(|_| data(piece.clone()))).collect();
    assert!(gunzip(&sent.await.unwrap().to_bytes()) == piece.repeat(20));
    let mut refused = 0;
    for body in crowd {
        refused += usize::from(body.await.unwrap().is_none());
    }
    assert!((1..1000).contains(&refused), "{refused}");
}

/// Bytes that a tenant's upstream chooses may cost thousands of comparisons each at the highest
/// level: the worker compresses none of them, also at a pause and at the end.
#[tokio::test]
async fn a_stream_of_the_highest_level_leaves_the_worker_to_others() {
    let coders = Arc::new(Coders::new());
    let turns: Vec<_> = std::iter::from_fn(|| coders.turns.try_enter(tenant())).collect();
    for (level, steps, sent) in [
        (9, vec![data(text(100))], 0),
        (6, vec![data(text(1000))], 0),
        (8, vec![data("a"), Step::Pause], 1),
        (8, vec![data("a")], 1),
    ] {
        let mut body = coded_at(level, &coders, steps);
        for _ in 0..sent {
            assert!(body.frame().now_or_never().is_some(), "{level}");
        }
        assert!(body.frame().now_or_never().is_none(), "{level}");
    }
    for (level, size) in [(4, 4096), (6, 700), (7, 300)] {
        let mut body = coded_at(level, &coders, [data(text(size))]);
        assert!(body.frame().now_or_never().is_some(), "{level}");
    }
    drop(turns);
}

#[tokio::test]
async fn a_body_of_many_frames_leaves_the_worker_to_others() {
    let coders = Arc::new(Coders::new());
    let zeros = Bytes::from_static(&[0; 4096]);
    let mut body = coded(&coders, (0..1000).map(|_| Step::Data(zeros.clone())));
    let (mut pauses, mut sent) = (0, Vec::new());
    loop {
        let frame = poll_fn(|cx| {
            let polled = Pin::new(&mut body).poll_frame(cx);
            pauses += usize::from(polled.is_pending());
            polled
        });
        let Some(frame) = frame.await else { break };
        sent.extend(frame.unwrap().into_data().unwrap());
    }
    assert!(pauses >= 5, "{pauses}");
    assert_eq!(gunzip(&sent), vec![0; 1000 * 4096]);
}

#[tokio::test]
async fn an_encoder_is_given_back_with_its_body() {
    let coders = Arc::new(Coders::new());
    let prefix = || Prefix::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    let left = || {
        let encoders = std::iter::from_fn(|| coders.try_encoder(prefix(), 4));
        encoders.collect::<Vec<_>>().len()
    };
    let all = left();
    let held: Vec<_> = (0..10).map(|_| coded(&coders, [Step::Pause])).collect();
    assert!(left() < all);
    drop(held);
    assert_eq!(left(), all);
}
