//! Tests heads of HTTP/2 that go on for ever in CONTINUATION frames (CVE-2024-27316
//! and others).

use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};
use tokio::time::timeout;

use super::frames::*;
use super::{Fixture, LIMITS};

/// Returns a literal field that is not indexed, with a value of so many bytes.
fn padding(length: usize) -> Vec<u8> {
    let length = u8::try_from(length).unwrap();
    assert!(length < 127);
    [&[0, 1, b'x', length][..], &vec![b'y'; usize::from(length)]].concat()
}

/// Begins a head that never ends, and sends pieces of it behind. Returns how many the
/// server took at most before it ended the connection.
async fn taken(fixture: &Fixture, piece: &[u8]) -> usize {
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    sender.write_all(&preface(65_535)).await.unwrap();
    let head = fields("a.example", "/", None);
    let head = frame(HEADERS, END_STREAM, 1, &head);
    sender.write_all(&head).await.unwrap();
    let frame = frame(CONTINUATION, 0, 1, piece);
    let sending = async {
        for sent in 0..MOST {
            if sender.write_all(&frame).await.is_err() || sender.flush().await.is_err() {
                return sent;
            }
            // The server's end is seen between two of them.
            tokio::task::yield_now().await;
        }
        MOST
    };
    let ended = async {
        while let Ok(frame) = read(&mut receiver).await {
            let answers = matches!(frame.kind, HEADERS | DATA);
            assert!(!answers, "an answer to half a head: {frame:?}");
            if frame.kind == GOAWAY {
                return;
            }
        }
    };
    let both = async {
        tokio::select! {
            biased;
            () = ended => None,
            sent = sending => Some(sent),
        }
    };
    let sent = timeout(Duration::from_secs(30), both).await;
    // Less than all, if the server said its end.
    sent.expect("an end").unwrap_or_default()
}

#[tokio::test]
async fn a_head_of_endless_continuations_ends_the_connection() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page.html", 600);
    for (name, piece) in [
        ("empty", Vec::new()),
        ("small fields", padding(20)),
        (
            "larger fields",
            [padding(100), padding(100), padding(100)].concat(),
        ),
    ] {
        let taken = taken(&fixture, &piece).await;
        assert!(taken < MOST, "{name}: all frames were taken");
    }
    // Others are served.
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    sender.write_all(&preface(65_535)).await.unwrap();
    let request = get(1, "a.example", "/page.html");
    sender.write_all(&request).await.unwrap();
    while !read(&mut receiver).await.unwrap().ends_stream() {}
}

/// A head in several pieces is none of that.
#[tokio::test]
async fn a_head_in_a_few_continuations_is_answered() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page.html", 600);
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    sender.write_all(&preface(65_535)).await.unwrap();
    let head = fields("a.example", "/page.html", None);
    let mut frames = frame(HEADERS, END_STREAM, 1, &head);
    for _ in 0..4 {
        frames.extend(frame(CONTINUATION, 0, 1, &padding(100)));
    }
    frames.extend(frame(CONTINUATION, END_HEADERS, 1, &padding(20)));
    sender.write_all(&frames).await.unwrap();
    let answered = async {
        loop {
            let frame = read(&mut receiver).await.unwrap();
            assert!(!matches!(frame.kind, GOAWAY | RST_STREAM), "{frame:?}");
            if frame.ends_stream() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), answered)
        .await
        .expect("an answer");
}

/// Frames of one head, far more than a server may take.
const MOST: usize = 20_000;
