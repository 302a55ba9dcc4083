//! Time-outs, and clients that leave.

use std::io;
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use sekisho_server::Limits;
use sekisho_testkit::TestCa;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::http2::empty;
use crate::upgrades::{connect, switch};
use crate::world::{HOST, OK, Upstream, Wire, World, patiently, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Limits of the client's side that are shorter than those of the upstream.
const SHORT: Limits = Limits {
    body: Duration::from_secs(1),
    ..LIMITS
};

fn site(upstream: &Upstream, timeouts: &str) -> String {
    format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "timeouts": {{{timeouts}}}}}}}"#,
        upstream.address()
    )
}

/// Waits until the server has ended an upload that stopped just now: `body` of its limits
/// has passed.
async fn body_limit_passes(world: &World, upstream: &Upstream) {
    let mut client = world.connect().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nab")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    client.closed().await;
}

#[tokio::test]
async fn an_upstream_that_never_answers_is_504() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream, r#""first_byte": "500ms""#));
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    assert_eq!(status(&client.answer().await.0), 504);
    server.closed().await;
}

#[tokio::test]
async fn an_upstream_that_stops_ends_the_answer() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream, r#""idle": "500ms""#));
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        .await;
    let got = String::from_utf8(client.rest().await).unwrap();
    assert!(got.ends_with("2\r\nab\r\n"), "{got}");
    server.closed().await;
}

#[tokio::test]
async fn an_event_stream_may_be_silent_for_longer() {
    let upstream = Upstream::bind().await;
    let timeouts = r#""idle": "100ms", "upgraded": "1h""#;
    let world = World::with(SHORT, &[(HOST, &site(&upstream, timeouts))]);
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
    server.send(head).await;
    assert_eq!(status(&client.head().await), 200);
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        // Events come at once; between them both sides are silent.
        server.send(event).await;
        client.until(event).await;
        body_limit_passes(&world, &upstream).await;
    }
}

/// Frames that the upstream does not send are not late at the client's side.
#[tokio::test]
async fn an_event_stream_over_http2_may_be_silent_for_longer() {
    let upstream = Upstream::bind().await;
    let limits = Limits {
        body: Duration::from_millis(200),
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &site(&upstream, r#""upgraded": "1h""#))]);
    let mut client = world.http2().await;
    let get = Request::get(format!("https://{HOST}/")).body(empty());
    let events = client.send_request(get.unwrap());
    let mut server = upstream.accept().await;
    server.head().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    server.send(head).await;
    let mut events = patiently(events).await.unwrap().into_body();
    let websocket = client.send_request(connect());
    let mut chat = upstream.accept().await;
    let head = chat.head().await;
    chat.send(switch(&head)).await;
    let websocket = patiently(websocket).await.unwrap();
    let websocket = patiently(hyper::upgrade::on(websocket)).await.unwrap();
    let mut websocket = Wire::new(TokioIo::new(websocket));
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        for _ in 0..4 {
            body_limit_passes(&world, &upstream).await;
        }
        server.send(event).await;
        let frame = patiently(events.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
        websocket.send("up").await;
        assert_eq!(chat.exact(2).await, b"up");
    }
    chat.send("down").await;
    assert_eq!(websocket.exact(4).await, b"down");
}

#[tokio::test]
async fn a_slow_upstream_is_not_a_slow_client() {
    let upstream = Upstream::bind().await;
    let world = World::with(SHORT, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    // More than the buffers on the way hold: the upstream reads none of it yet.
    let body = vec![b'x'; 8 << 20];
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let sending = async {
        client.send(head).await;
        client.send(&body).await;
        client.answer().await
    };
    let serving = async {
        let mut server = upstream.accept().await;
        server.head().await;
        body_limit_passes(&world, &upstream).await;
        body_limit_passes(&world, &upstream).await;
        server.exact(8 << 20).await;
        body_limit_passes(&world, &upstream).await;
        body_limit_passes(&world, &upstream).await;
        server.send(OK).await;
    };
    let ((head, _), ()) = tokio::join!(sending, serving);
    assert_eq!(status(&head), 200);
}

#[tokio::test]
async fn a_slow_client_is_not_a_slow_upstream() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream, r#""first_byte": "1s", "idle": "1s""#));
    let mut client = world.connect().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    for byte in ["a", "b"] {
        // Both limits of the upstream pass for another request.
        let mut other = world.connect().await;
        other.send(GET).await;
        let mut silent = upstream.accept().await;
        silent.head().await;
        assert_eq!(status(&other.answer().await.0), 504);
        client.send(byte).await;
        server.exact(1).await;
    }
    server.send(OK).await;
    assert_eq!(status(&client.answer().await.0), 200);
}

#[tokio::test]
async fn a_client_that_stops_sending_ends_the_request() {
    let upstream = Upstream::bind().await;
    let world = World::with(SHORT, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nab")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    assert_eq!(server.rest().await, b"ab");
    client.closed().await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request() {
    let upstream = Upstream::bind().await;
    let world = World::with(SHORT, &[(HOST, &upstream.site())]);
    // Before the answer, between its events, and in an upload.
    for (request, begun) in [
        (GET, ""),
        (
            GET,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nab",
            "",
        ),
    ] {
        let mut client = world.connect().await;
        client.send(request).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(begun).await;
        if !begun.is_empty() {
            client.head().await;
        }
        let begin = Instant::now();
        drop(client);
        server.rest().await;
        assert!(begin.elapsed() < Duration::from_secs(15), "{request}");
    }
}

/// A port of a connection that is closed in order stays in use for a minute.
#[tokio::test]
async fn a_connection_given_up_amid_a_request_is_reset() {
    let upstream = Upstream::bind().await;
    let world = World::with(SHORT, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    drop(client);
    assert_eq!(server.end().await, Some(io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_client_that_half_closes_gets_its_answer() {
    let upstream = Upstream::bind().await;
    // With one worker.
    let world = World::shared(TestCa::new(), &[(HOST, "acme", &*upstream.site())]);
    let mut client = world.connect().await;
    client.send(GET).await;
    client.shutdown().await;
    let mut server = upstream.accept().await;
    server.head().await;
    // Its worker sees the half close before what another client sends later.
    let mut other = world.connect().await;
    other.send(GET).await;
    let mut second = upstream.accept().await;
    second.head().await;
    second.send(OK).await;
    assert_eq!(other.answer().await.1, "ok");
    server.send(OK).await;
    assert_eq!(client.answer().await.1, "ok");
}

/// Fills the backlog of a listener: no SYN is answered while the sockets are held.
pub(crate) async fn full(listener: TcpListener) -> (TcpListener, Vec<TcpStream>) {
    let address = listener.local_addr().unwrap();
    // A second call of `listen` changes the backlog.
    socket2::SockRef::from(&listener).listen(1).unwrap();
    let mut held = Vec::new();
    let short = Duration::from_millis(200);
    while let Ok(Ok(socket)) = timeout(short, TcpStream::connect(address)).await {
        held.push(socket);
    }
    (listener, held)
}

#[tokio::test]
async fn connecting_has_its_time() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let _full = full(listener).await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{address}"], "timeouts": {{"connect": "300ms"}}}}}}"#
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    client.send(GET).await;
    assert_eq!(status(&client.answer().await.0), 504);
}

#[tokio::test]
async fn servers_that_do_not_accept_are_not_all_tried() {
    let listener = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let _full = full(listener).await;
    // Many addresses lead to one socket: each is a server of its own.
    let servers: Vec<_> = (1..=20)
        .map(|n| format!(r#""http://127.0.0.{n}:{}""#, address.port()))
        .collect();
    let servers = servers.join(", ");
    let site = format!(
        r#"{{"upstream": {{"servers": [{servers}], "timeouts": {{"connect": "300ms"}}}}}}"#
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    client.send(GET).await;
    assert_eq!(status(&client.answer().await.0), 504);
    // The budget has ten.
    let retries = figure(&world.running, "sekisho_upstream_retries_total").await;
    assert!((1..=2).contains(&retries), "{retries}");
}
