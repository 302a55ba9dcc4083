//! HTTP/2 on either side: gRPC, h2c, cookies.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, COOKIE, TE};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::common::LIMITS;
use crate::world::{HOST, OK, Upstream, Wire, World, field, patiently, status};

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn full(text: &'static str) -> Body {
    Full::from(text)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Makes a body that a test sends frame by frame.
pub(crate) fn channel() -> (mpsc::UnboundedSender<Frame<Bytes>>, Body) {
    let (sender, frames) = mpsc::unbounded_channel();
    let frames = stream::unfold(frames, async |mut frames| {
        frames.recv().await.map(|frame| (Ok(frame), frames))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// Upstream that speaks HTTP/2 in plain text.
struct H2c {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl H2c {
    /// Serves requests with this function.
    async fn start<F, R>(serve: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                let service = service_fn(move |request| {
                    let answer = serve(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(socket), service));
            }
        });
        Self {
            address,
            connections,
        }
    }

    fn site(&self) -> String {
        format!(r#"{{"upstream": "h2c://{}"}}"#, self.address)
    }
}

/// Echoes the messages of a call, and ends with this status in the trailers.
pub(crate) fn echo(request: Request<Incoming>, status: &'static str) -> Body {
    let (frames, body) = channel();
    tokio::spawn(async move {
        let mut messages = request.into_body();
        while let Some(frame) = messages.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            let _ = frames.send(Frame::data(data));
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.parse().unwrap());
        let _ = frames.send(Frame::trailers(trailers));
    });
    body
}

#[tokio::test]
async fn grpc_streams_both_ways_and_ends_with_trailers() {
    let upstream = H2c::start(async |request: Request<Incoming>| {
        assert_eq!(request.version(), Version::HTTP_2);
        assert_eq!(request.uri().host(), Some(HOST));
        assert_eq!(request.headers().get("host"), None);
        assert_eq!(request.headers()[TE], "trailers");
        assert_eq!(request.headers()["x-forwarded-for"], "127.0.0.1");
        let body = echo(request, "0");
        let mut answer = Response::new(body);
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, "application/grpc".parse().unwrap());
        answer
    })
    .await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    let (messages, body) = channel();
    let request = Request::post(format!("https://{HOST}/pkg.Service/Method"))
        .header(TE, "trailers")
        .header(CONTENT_TYPE, "application/grpc")
        .body(body);
    let answer = patiently(client.send_request(request.unwrap()))
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut answer = answer.into_body();
    for message in ["one", "two"] {
        messages.send(Frame::data(message.into())).unwrap();
        let echo = patiently(answer.frame()).await.unwrap().unwrap();
        assert_eq!(echo.into_data().unwrap(), message);
    }
    drop(messages);
    let end = patiently(answer.frame()).await.unwrap().unwrap();
    assert_eq!(end.into_trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_client_of_http1_reaches_an_upstream_of_http2() {
    let upstream = H2c::start(async |request: Request<Incoming>| {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((&*path, &*body), ("/a", &b"abc"[..]));
        Response::new(full("ok"))
    })
    .await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for request in [
        "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc",
        "POST /a HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        client.send(request).await;
        assert_eq!(client.answer().await.1, "ok");
    }
}

#[tokio::test]
async fn requests_share_a_connection_of_http2() {
    let upstream = H2c::start(async |_| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Response::new(full("ok"))
    })
    .await;
    let limits = sekisho_server::Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &upstream.site())]);
    let client = world.http2().await;
    let all = (0..50).map(|_| {
        let mut client = client.clone();
        async move {
            let request = Request::get(format!("https://{HOST}/"))
                .body(empty())
                .unwrap();
            patiently(client.send_request(request))
                .await
                .unwrap()
                .status()
        }
    });
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|status| *status == StatusCode::OK));
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_of_http2_becomes_one_of_http1() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    let request = Request::get(format!("https://{HOST}/a?b"))
        .header(COOKIE, "a=1")
        .header(COOKIE, "b=2")
        .header("x-own", "1")
        .body(empty());
    let answer = client.send_request(request.unwrap());
    let mut server = upstream.accept().await;
    let head = server.head().await;
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("host", Some(HOST)),
        ("cookie", Some("a=1; b=2")),
        ("x-forwarded-host", Some(HOST)),
        ("x-own", Some("1")),
        ("transfer-encoding", None),
        ("content-length", None),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
    server
        .send("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
        .await;
    let answer = patiently(answer).await.unwrap();
    assert_eq!(answer.headers().get("connection"), None);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    // A body without a length is chunked, also where hyper would drop it.
    for method in ["POST", "GET"] {
        let (frames, body) = channel();
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{HOST}/"));
        let answer = client.send_request(request.body(body).unwrap());
        frames.send(Frame::data("abc".into())).unwrap();
        drop(frames);
        let head = server.head().await;
        assert_eq!(
            field(&head, "transfer-encoding").as_deref(),
            Some("chunked")
        );
        assert_eq!(server.until("0\r\n\r\n").await, "3\r\nabc\r\n0\r\n\r\n");
        server.send(OK).await;
        assert_eq!(patiently(answer).await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn data_against_its_length_never_looks_whole() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    for (length, data) in [("5", "abc"), ("2", "abc")] {
        let mut client = world.http2().await;
        let (frames, body) = channel();
        let request = Request::post(format!("https://{HOST}/")).header("content-length", length);
        let answer = client.send_request(request.body(body).unwrap());
        frames.send(Frame::data(data.into())).unwrap();
        drop(frames);
        let answer = patiently(answer).await;
        assert!(answer.is_err() || answer.unwrap().status().is_client_error());
        // What the upstream got of it ends before the length that it was told.
        let sent = upstream.accept().await.rest().await;
        let sent = String::from_utf8(sent).unwrap();
        if let Some((head, body)) = sent.split_once("\r\n\r\n") {
            assert_eq!(field(head, "content-length").as_deref(), Some(length));
            assert!(body.len() < length.parse().unwrap(), "{sent}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_ends_the_request() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    let request = Request::get(format!("https://{HOST}/"))
        .body(empty())
        .unwrap();
    let answer = tokio::spawn(client.send_request(request));
    let mut server = upstream.accept().await;
    server.head().await;
    answer.abort();
    server.closed().await;
    // Between frames of an answer.
    let request = Request::get(format!("https://{HOST}/"))
        .body(empty())
        .unwrap();
    let answer = client.send_request(request);
    let mut server = upstream.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        .await;
    drop(patiently(answer).await.unwrap());
    server.closed().await;
}

#[tokio::test]
async fn one_silent_upload_ends_without_its_neighbours() {
    let upstream = Upstream::bind().await;
    let limits = sekisho_server::Limits {
        body: Duration::from_millis(600),
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &upstream.site())]);
    let mut client = world.http2().await;
    let request = Request::get(format!("https://{HOST}/slow"))
        .body(empty())
        .unwrap();
    let slow = tokio::spawn(client.send_request(request));
    let mut slow_server = upstream.accept().await;
    slow_server.head().await;
    let (_frames, body) = channel();
    let request = Request::post(format!("https://{HOST}/"))
        .body(body)
        .unwrap();
    let answer = client.send_request(request);
    let mut server = upstream.accept().await;
    server.head().await;
    assert!(patiently(answer).await.is_err());
    server.closed().await;
    slow_server.send(OK).await;
    assert_eq!(
        patiently(slow).await.unwrap().unwrap().status(),
        StatusCode::OK
    );
}

/// Closes each connection of HTTP/2 once a request came over it.
async fn closing() -> H2c {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let mut wire = Wire::new(listener.accept().await.unwrap().0);
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                wire.send([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                wire.until("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
                while wire.next_frame().await != 1 {}
            });
        }
    });
    H2c {
        address,
        connections,
    }
}

#[tokio::test]
async fn a_new_connection_of_http2_that_closes_is_a_failure() {
    let (failing, live) = (
        closing().await,
        H2c::start(async |_| Response::new(full("ok"))).await,
    );
    let site = format!(
        r#"{{"upstream": {{"servers": ["h2c://{}", "h2c://{}"]}}}}"#,
        failing.address, live.address
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    let get = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let mut failures = 0;
    while failures < 5 {
        client.send(&get).await;
        failures += usize::from(status(&client.answer().await.0) == 502);
    }
    // No request was sent twice, and the server is ejected.
    assert_eq!(failing.connections.load(Ordering::SeqCst), failures);
    for _ in 0..20 {
        client.send(&get).await;
        assert_eq!(client.answer().await.1, "ok");
    }
}
