//! Tests that small answers over HTTP/2 share records of TLS, and with them system calls.

use std::io::{Read, Write};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::time::timeout;

use super::frames::*;
use super::{Fixture, LIMITS};

#[tokio::test]
async fn small_answers_share_records() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("small", 612);
    read_into_the_cache(&fixture).await;
    let (mut socket, mut tls) = fixture.connect(b"h2").await.into_inner();
    let requests = (0..ANSWERS).flat_map(|number| get(2 * number + 1, "a.example", "/small"));
    let requests: Vec<u8> = requests.collect();
    tls.writer().write_all(&preface(65_535)).unwrap();
    tls.writer().write_all(&requests).unwrap();
    let mut sent = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut sent).unwrap();
    }
    socket.write_all(&sent).await.unwrap();
    let (mut records, mut received, mut plain) = (0, Vec::new(), Vec::new());
    while ended(&plain) < ANSWERS {
        let read = timeout(Duration::from_secs(20), socket.read_buf(&mut received)).await;
        assert!(read.unwrap().unwrap() > 0, "the connection ended");
        while let Some(record) = take_record(&mut received) {
            records += 1;
            let mut rest = &record[..];
            while !rest.is_empty() {
                tls.read_tls(&mut rest).unwrap();
                tls.process_new_packets().unwrap();
            }
            let mut some = vec![0; 32 << 10];
            while let Ok(read) = tls.reader().read(&mut some) {
                plain.extend_from_slice(&some[..read]);
            }
        }
    }
    // Tickets and settings have some of their own.
    assert!(records < ANSWERS / 2, "{records} records");
}

async fn read_into_the_cache(fixture: &Fixture) {
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let request = [preface(65_535), get(1, "a.example", "/small")].concat();
    sender.write_all(&request).await.unwrap();
    while !read(&mut receiver).await.unwrap().ends_stream() {}
}

fn take_record(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = received.get(3..5)?;
    let end = 5 + usize::from(u16::from_be_bytes([length[0], length[1]]));
    (received.len() >= end).then(|| received.drain(..end).collect())
}

/// Returns the number of answers that came whole.
fn ended(mut plain: &[u8]) -> u32 {
    let mut ended = 0;
    while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = plain {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some(behind) = rest.get(length..) else {
            break;
        };
        ended += u32::from(matches!(*kind, DATA | HEADERS) && flags & END_STREAM != 0);
        plain = behind;
    }
    ended
}

const ANSWERS: u32 = 50;
