//! gRPC and upgrades over TLS and Unix sockets.

use std::convert::Infallible;

use http::header::{CONTENT_TYPE, TE};
use http::{Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_testkit::{Key, TestCa};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;

use crate::http2::{self, Body, channel};
use crate::tls::{NAME, Secure, json};
use crate::world::{HOST, Wire, World, field, patiently, status};

/// Echoes the messages of a call, and ends with a status in the trailers.
async fn echo(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_2);
    assert_eq!(request.headers()[TE], "trailers");
    let body = http2::echo(request, "7");
    let answer = Response::builder().header(CONTENT_TYPE, "application/grpc");
    Ok(answer.body(body).unwrap())
}

/// Serves calls on a connection.
fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    tokio::spawn(server.serve_connection(TokioIo::new(stream), service_fn(echo)));
}

/// Makes a call whose messages and answers take turns.
async fn call(world: &World) {
    let mut client = world.http2().await;
    let (messages, body) = channel();
    let request = Request::post(format!("https://{HOST}/pkg.Service/Method"))
        .header(TE, "trailers")
        .header(CONTENT_TYPE, "application/grpc")
        .body(body);
    let answer = client.send_request(request.unwrap());
    let answer = patiently(answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut answer = answer.into_body();
    for message in ["one", "two", "three"] {
        messages.send(Frame::data(message.into())).unwrap();
        let echo = patiently(answer.frame()).await.unwrap().unwrap();
        assert_eq!(echo.into_data().unwrap(), message);
    }
    drop(messages);
    let end = patiently(answer.frame()).await.unwrap().unwrap();
    assert_eq!(end.into_trailers().unwrap()["grpc-status"], "7");
}

fn tls(ca: &TestCa) -> String {
    format!(r#""name": "{NAME}", "ca": {}"#, json(&ca.root_pem()))
}

#[tokio::test]
async fn grpc_passes_over_tls() {
    let ca = TestCa::new();
    for protocol in ["auto", "http2"] {
        let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"h2").await;
        let site = upstream.site(&tls(&ca));
        let protocol = format!(r#""protocol": "{protocol}", "servers""#);
        let world = World::new(&site.replace("\"servers\"", &protocol));
        tokio::spawn(async move { serve(upstream.accept().await.unwrap()) });
        call(&world).await;
    }
}

#[tokio::test]
async fn grpc_passes_over_a_unix_socket() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let world = World::new(&format!(
        r#"{{"upstream": {{"servers": ["unix:{}"], "protocol": "http2"}}}}"#,
        path.display()
    ));
    tokio::spawn(async move { serve(listener.accept().await.unwrap().0) });
    call(&world).await;
}

/// Leaves HTTP for a protocol of the test's own, and passes bytes both ways.
async fn upgrades<S>(world: &World, accept: impl Future<Output = S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = world.connect().await;
    client
        .send(format!(
            "GET /echo HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: echo/1, other\r\n\r\nearly"
        ))
        .await;
    let mut server = Wire::new(patiently(accept).await);
    let head = server.head().await;
    assert_eq!(field(&head, "upgrade").as_deref(), Some("echo/1, other"));
    assert_eq!(field(&head, "connection").as_deref(), Some("upgrade"));
    server
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n\0first")
        .await;
    let head = client.head().await;
    assert_eq!(status(&head), 101);
    assert_eq!(field(&head, "upgrade").as_deref(), Some("echo/1"));
    assert_eq!(client.exact(6).await, b"\0first");
    assert_eq!(server.exact(5).await, b"early");
    let large = vec![0xff; 1 << 20];
    let ((), got) = tokio::join!(client.send(&large), server.exact(large.len()));
    assert_eq!(got, large);
    let ((), got) = tokio::join!(server.send(&large), client.exact(large.len()));
    assert_eq!(got, large);
    // A side that has ended still reads.
    client.shutdown().await;
    server.closed().await;
    server.send("last").await;
    server.shutdown().await;
    assert_eq!(client.rest().await, b"last");
}

#[tokio::test]
async fn other_protocols_than_websocket_pass_over_tls() {
    let ca = TestCa::new();
    let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"http/1.1").await;
    let world = World::new(&upstream.site(&tls(&ca)));
    upgrades(&world, async { upstream.accept().await.unwrap() }).await;
}

#[tokio::test]
async fn other_protocols_than_websocket_pass_over_a_unix_socket() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let world = World::new(&format!(r#"{{"upstream": "unix:{}"}}"#, path.display()));
    upgrades(&world, async { listener.accept().await.unwrap().0 }).await;
}
