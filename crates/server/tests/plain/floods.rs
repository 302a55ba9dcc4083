//! What a client of plain HTTP may take.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sekisho_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{LIMITS, Scripted, start};
use crate::{Client, bare, get, setup, site};

#[tokio::test]
async fn a_head_has_its_limit_from_the_first_moment() {
    let mut setup = setup();
    setup.settings.limits = Limits {
        head: Duration::from_millis(300),
        ..LIMITS
    };
    let hosts = Scripted::new([bare("serve.example", &site("serve"))]);
    let running = start(hosts, &setup);
    for begun in ["", "GET / HTTP/1.1\r\nHost: serve"] {
        let since = Instant::now();
        let mut socket = TcpStream::connect(running.http).await.unwrap();
        socket.write_all(begun.as_bytes()).await.unwrap();
        let ended = socket.read(&mut [0]).await;
        assert!(ended.is_err() || ended.is_ok_and(|read| read == 0));
        assert!(since.elapsed() < Duration::from_secs(5), "{begun}");
    }
    // Between two requests the limit of idle connections holds.
    let mut client = Client::connect(running.http).await;
    for _ in 0..2 {
        assert_eq!(client.get("serve.example", "/").await.status, 410);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
}

#[tokio::test]
async fn unknown_names_are_budgeted_and_others_served() {
    let mut setup = setup();
    setup.settings.limits.absent_per_prefix = 2;
    let hosts = Scripted::new([bare("serve.example", &site("serve"))]);
    let running = start(hosts, &setup);
    let mut client = Client::connect(running.http).await;
    assert_eq!(client.get("serve.example", "/").await.status, 410);
    // All at once: each waits for its budget until the limit of a lookup.
    let flood = (0..50).map(async |number| {
        let name = format!("x{number}.example");
        let answer = get(&running, &name, "/").await;
        answer.leads_to_https(&running, &name, "/");
    });
    join_all(flood).await;
    assert!(running.store.calls() <= 4, "{}", running.store.calls());
    assert_eq!(client.get("serve.example", "/").await.status, 410);
    assert_eq!(get(&running, "serve.example", "/").await.status, 410);
}
