//! Tests floods of frames that cost the server more than the client.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};

use super::frames::*;
use super::{Fixture, LIMITS};

/// More than twice the burst of the frame budget. Its 85 KB are fewer than the
/// server discards of a closed connection: beyond them, a reset would destroy
/// GOAWAY.
const FLOOD: usize = 5_000;

/// Returns whether the server answers a flood of this frame with
/// ENHANCE_YOUR_CALM.
async fn gets_goaway(fixture: &Fixture, frame: &[u8]) -> bool {
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let flood = async {
        let _ = sender.write_all(&preface(65_535)).await;
        let _ = sender.write_all(&frame.repeat(FLOOD)).await;
        // A server that accepted the whole flood would keep answering.
        let _ = sender.shutdown().await;
    };
    let seen = async {
        loop {
            match read(&mut receiver).await {
                Ok(frame) if frame.is_goaway(ENHANCE_YOUR_CALM) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    };
    let both = async { tokio::join!(flood, seen).1 };
    tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("an end")
}

#[tokio::test]
async fn a_flood_of_control_frames_ends_the_connection() {
    let fixture = Fixture::new(LIMITS);
    let floods = [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("PING acknowledgements", frame(PING, 1, 0, &[7; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("an unknown kind", frame(0x42, 0, 0, &[])),
    ];
    for (name, frames) in floods {
        assert!(gets_goaway(&fixture, &frames).await, "{name}");
    }
}

#[tokio::test]
async fn a_flood_of_refused_requests_ends_the_connection() {
    let fixture = Fixture::new(LIMITS);
    // A connection-specific field: each is a stream error (RFC 9113, section
    // 8.2.2).
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let wrong = fields("a.example", "/", Some(("connection", "x")));
    let flood = async {
        let _ = sender.write_all(&preface(65_535)).await;
        for stream in (1..20_000).step_by(2) {
            let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &wrong);
            if sender.write_all(&request).await.is_err() {
                return;
            }
        }
        let _ = sender.shutdown().await;
    };
    let (frames, ()) = tokio::join!(read_all(&mut receiver), flood);
    let calm = frames
        .iter()
        .any(|frame| frame.is_goaway(ENHANCE_YOUR_CALM));
    assert!(calm, "{:?}", frames.last());
}

#[tokio::test]
async fn resets_behind_each_answer_end_the_connection() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page.html", 600);
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    // Without a window, each answer waits until it is reset.
    sender.write_all(&preface(0)).await.unwrap();
    let mut resets = 0;
    let sent_away = 'resets: {
        for stream in (1..8_000).step_by(2) {
            let request = get(stream, "a.example", "/page.html");
            if sender.write_all(&request).await.is_err() {
                break;
            }
            loop {
                match read(&mut receiver).await {
                    Ok(frame) if frame.is_goaway(ENHANCE_YOUR_CALM) => break 'resets true,
                    Ok(frame) if frame.kind == HEADERS && frame.stream == stream => break,
                    Ok(_) => {}
                    Err(_) => break 'resets false,
                }
            }
            let reset = frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            if sender.write_all(&reset).await.is_err() {
                break;
            }
            resets += 1;
        }
        false
    };
    assert!(sent_away, "after {resets} resets");
    assert!((100..1000).contains(&resets), "{resets}");
}

#[tokio::test]
async fn a_busy_honest_client_is_kept() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page.html", 600);
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    sender.write_all(&preface(65_535)).await.unwrap();
    for stream in (1..8_000).step_by(2) {
        // An eager client sends PRIORITY with each request, and WINDOW_UPDATE
        // for each DATA frame.
        let request = [
            get(stream, "a.example", "/page.html"),
            frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 16]),
        ];
        sender.write_all(&request.concat()).await.unwrap();
        loop {
            let seen = read(&mut receiver).await.expect("an answer");
            assert_ne!(seen.kind, GOAWAY, "stream {stream}");
            if seen.kind == DATA {
                let update = 600u32.to_be_bytes();
                let update = frame(WINDOW_UPDATE, 0, 0, &update);
                sender.write_all(&update).await.unwrap();
            }
            if seen.ends_stream() {
                break;
            }
        }
    }
}
