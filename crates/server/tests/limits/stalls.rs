//! Tests answers that the client does not take, and requests that do not come.

use std::time::{Duration, Instant};

use tokio::io::{AsyncWriteExt, split};

use super::frames::*;
use super::{Fixture, LIMITS, Limits};

const SHORT: Limits = Limits {
    body: Duration::from_millis(500),
    idle: Duration::from_secs(1),
    ..LIMITS
};

/// Sends `begin` and then pings. Returns how long the connection lasted, and
/// the frames that it got.
async fn life(fixture: &Fixture, begin: &[u8]) -> (Duration, Vec<Frame>) {
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let begun = Instant::now();
    sender.write_all(begin).await.unwrap();
    let ping = frame(PING, 0, 0, &[7; 8]);
    let frames = tokio::select! {
        frames = read_all(&mut receiver) => frames,
        () = repeat(&mut sender, &ping, Duration::from_millis(100)) => unreachable!(),
    };
    (begun.elapsed(), frames)
}

#[tokio::test]
async fn an_answer_of_one_frame_without_a_window_meets_its_limit() {
    let fixture = Fixture::new(SHORT);
    fixture.write("small", 612);
    fixture.write("large", 1 << 20);
    let range = fields("a.example", "/large", Some(("range", "bytes=0-9999")));
    let requests = [
        ("file", get(1, "a.example", "/small")),
        ("status", get(1, "b.example", "/")),
        ("range", frame(HEADERS, END_STREAM | END_HEADERS, 1, &range)),
    ];
    for (name, request) in requests {
        let begin = [preface(0), request].concat();
        let (after, frames) = life(&fixture, &begin).await;
        assert!(
            (400..9000).contains(&after.as_millis()),
            "{name}: {after:?}"
        );
        let reset = frames.iter().find(|frame| frame.kind == RST_STREAM);
        assert!(reset.is_some_and(|frame| frame.stream == 1), "{name}");
    }
}

#[tokio::test]
async fn stalled_streams_end_beside_a_live_one() {
    let fixture = Fixture::new(SHORT);
    fixture.write("large", 64 << 20);
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let stalled = (1..199).step_by(2);
    let requests: Vec<u8> = stalled
        .clone()
        .chain([199])
        .flat_map(|stream| get(stream, "a.example", "/large"))
        .collect();
    sender.write_all(&preface(0)).await.unwrap();
    sender.write_all(&requests).await.unwrap();
    let more = 65_536u32.to_be_bytes();
    let more = [0, 199].map(|stream| frame(WINDOW_UPDATE, 0, stream, &more));
    let more = more.concat();
    let mut open = std::collections::HashSet::<u32>::from_iter(stalled);
    let mut most_files = 0;
    let mut live = 0;
    let reading = async {
        while !open.is_empty() || live == 0 {
            let seen = read(&mut receiver).await.expect("a live connection");
            most_files = most_files.max(open_files(&fixture));
            match seen.kind {
                RST_STREAM => assert!(open.remove(&seen.stream), "{}", seen.stream),
                DATA => {
                    assert_eq!(seen.stream, 199);
                    live += seen.payload.len();
                }
                _ => assert_ne!(seen.kind, GOAWAY),
            }
        }
    };
    tokio::select! {
        ended = tokio::time::timeout(Duration::from_secs(60), reading) => {
            assert!(ended.is_ok(), "{} streams stall on", open.len());
        }
        () = repeat(&mut sender, &more, Duration::from_millis(20)) => unreachable!(),
    }
    // Files of answers, and files that are being opened.
    assert!((1..=16 + 32).contains(&most_files), "{most_files} files");
}

/// Counts this process's descriptors for files of the site. The server runs in
/// it.
fn open_files(fixture: &Fixture) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(fixture.folder.path()))
        .count()
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_little_in_the_kernel() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("large", 64 << 20);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let socket = socket.connect(fixture.running.address).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut stream = fixture.handshake(socket, b"http/1.1").await;
    let request = b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    let (mut queued, mut same) = (0, 0);
    while same < 10 {
        pause.tick().await;
        let now = queued_for(port);
        same = if now > 0 && now == queued {
            same + 1
        } else {
            0
        };
        queued = now;
    }
    assert!((64 << 10..1 << 20).contains(&queued), "{queued}");
}

/// Returns the bytes that the kernel holds for a client's port (`tx_queue` in
/// proc(5)).
fn queued_for(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let client = format!(":{port:04X}");
    let line = sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields[2].ends_with(&client).then(|| fields[4].to_owned())
    });
    let queues = line.unwrap();
    usize::from_str_radix(queues.split(':').next().unwrap(), 16).unwrap()
}

#[tokio::test]
async fn a_head_that_does_not_end_meets_its_limit() {
    let fixture = Fixture::new(Limits {
        head: Duration::from_millis(500),
        ..LIMITS
    });
    let fields = fields("a.example", "/", None);
    let begun = [preface(65_535), frame(HEADERS, END_STREAM, 1, &fields)].concat();
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let sent = Instant::now();
    sender.write_all(&begun).await.unwrap();
    read_all(&mut receiver).await;
    let after = sent.elapsed().as_millis();
    assert!((400..9000).contains(&after), "{after}");
}

#[tokio::test]
async fn a_removed_host_ends_its_connection_despite_requests() {
    let fixture = Fixture::new(Limits {
        drain: Duration::from_secs(1),
        ..LIMITS
    });
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    fixture.remove("a.example");
    sender.write_all(&preface(65_535)).await.unwrap();
    let begun = Instant::now();
    let asking = async {
        let mut pause = tokio::time::interval(Duration::from_millis(100));
        for stream in (1..).step_by(2) {
            pause.tick().await;
            let request = get(stream, "a.example", "/");
            if sender.write_all(&request).await.is_err() {
                return std::future::pending::<()>().await;
            }
        }
    };
    // The server acknowledges no ping.
    let frames = tokio::select! {
        frames = read_all(&mut receiver) => frames,
        () = asking => unreachable!(),
    };
    assert!(frames.iter().any(|frame| frame.kind == GOAWAY));
    let after = begun.elapsed();
    assert!(after < Duration::from_secs(10), "{after:?}");
}
