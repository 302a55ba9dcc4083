//! Uploads over HTTP/2: their windows, and bytes that no upstream takes.

use std::net::SocketAddr;
use std::ops::RangeBounds;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use sekisho_server::Limits;
use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;

use crate::common::metrics::figure;
use crate::common::{LIMITS, Setup};
use crate::http2::Body;
use crate::world::{HOST, Http2, OK, Upstream, Wire, World, patiently, speak_http2};

fn post(bytes: usize) -> Request<Body> {
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    let zeros = ZEROS.get_or_init(|| Bytes::from(vec![0; FULL]));
    let body = Full::from(zeros.slice(..bytes));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Request::post(format!("https://{HOST}/"))
        .body(body)
        .unwrap()
}

/// Begins a request whose answer nobody waits for.
fn begin(
    client: &mut Http2,
    bytes: usize,
) -> tokio::task::JoinHandle<hyper::Result<Response<Incoming>>> {
    tokio::spawn(client.send_request(post(bytes)))
}

/// Makes an upstream for whose connections the kernel holds little.
fn small() -> Upstream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    Upstream::of(socket.listen(1024).unwrap())
}

/// Waits until bodies hold a number of bytes in this range.
pub(crate) async fn held(world: &World, bytes: impl RangeBounds<u64>) {
    patiently(async {
        while !bytes.contains(&figure(&world.running, HELD).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Begins uploads of which an upstream reads the heads alone. Returns its sockets.
async fn untaken(client: &mut Http2, upstream: &Upstream, uploads: usize) -> Vec<Wire<TcpStream>> {
    let mut sockets = Vec::new();
    for _ in 0..uploads {
        begin(client, FULL);
        let mut socket = upstream.accept().await;
        socket.head().await;
        sockets.push(socket);
    }
    sockets
}

/// Relay to a server that passes each byte on `delay` later, in both directions.
async fn relay(to: SocketAddr, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(to).await.unwrap();
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let ((client, to_client), (server, to_server)) = (split(client), split(server));
        tokio::join!(
            pass(client, to_server, delay),
            pass(server, to_client, delay)
        );
    });
    address
}

async fn pass(mut from: ReadHalf<TcpStream>, mut to: WriteHalf<TcpStream>, delay: Duration) {
    // Pieces of 64 KiB: the relay holds 64 MiB at most.
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let reading = async move {
        loop {
            let mut piece = vec![0; 64 << 10];
            match from.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(count) => piece.truncate(count),
            }
            if sender.send((Instant::now() + delay, piece)).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due.into()).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}

#[tokio::test]
async fn an_upload_over_a_long_path_waits_for_few_round_trips() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let address = relay(world.running.address, Duration::from_millis(25)).await;
    let mut config = client::config(&world.ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = client::connect(address, HOST, config).await.unwrap();
    let mut client = speak_http2(stream).await;
    let serving = async {
        let mut socket = upstream.accept().await;
        socket.head().await;
        let mut left = 20_000_000;
        while left > 0 {
            left -= socket.exact(left.min(1_000_000)).await.len();
        }
        socket.send(OK).await;
    };
    let begun = Instant::now();
    let asking = client.send_request(post(20_000_000));
    let (answer, ()) = tokio::join!(asking, serving);
    let took = begun.elapsed();
    assert_eq!(answer.unwrap().status(), 200);
    println!("20 MB with a round trip of 50 ms: {took:?}");
    // With windows of 64 KiB it takes 305 round trips, 16 s.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn bodies_that_nobody_takes_stall_no_other_upload() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    let _untaken = untaken(&mut client, &upstream, 4).await;
    let serving = async {
        let mut socket = upstream.accept().await;
        socket.head().await;
        socket.exact(8 << 20).await;
        socket.send(OK).await;
    };
    let asking = client.send_request(post(8 << 20));
    let (answer, ()) = tokio::join!(patiently(asking), serving);
    assert_eq!(answer.unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_that_waits_for_our_window_is_not_late() {
    let upstream = Upstream::bind().await;
    let limits = Limits {
        body: Duration::from_millis(500),
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &upstream.site())]);
    let mut client = world.http2().await;
    let untaken = untaken(&mut client, &upstream, 7).await;
    held(&world, 9 << 20..).await;
    let asking = begin(&mut client, 1 << 20);
    let mut socket = upstream.accept().await;
    socket.head().await;
    tokio::time::sleep(limits.body * 4).await;
    for mut socket in untaken {
        tokio::spawn(async move { socket.rest().await });
    }
    socket.exact(1 << 20).await;
    socket.send(OK).await;
    assert_eq!(patiently(asking).await.unwrap().unwrap().status(), 200);
}

/// Connects over HTTP/2 from an address of its own.
async fn connect_from(world: &World, from: [u8; 4]) -> Http2 {
    speak_http2(stream_from(world, from).await).await
}

async fn stream_from(world: &World, from: [u8; 4]) -> TlsStream<TcpStream> {
    let mut config = client::config(&world.ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let socket = socket.connect(world.running.address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let name = rustls::pki_types::ServerName::try_from(HOST).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, socket).await.unwrap()
}

/// Waits until the server has ended a connection.
pub(crate) async fn ended(client: &mut Http2) {
    let ended = async {
        while client.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patiently(ended).await;
}

#[tokio::test]
async fn over_the_bound_the_largest_connection_of_the_largest_network_ends() {
    let upstream = small();
    let mut setup = Setup::limits(LIMITS);
    // Of each body the kernel takes what it likes, up to half of its window of 2 MiB.
    setup.settings.bodies = 9 << 20;
    let world = World::of_setup(setup, &[(HOST, &upstream.site())]);
    let mut sockets = Vec::new();
    // The smallest connection of the largest network, and a neighbour that holds more.
    let mut small = connect_from(&world, [127, 0, 1, 1]).await;
    sockets.extend(untaken(&mut small, &upstream, 1).await);
    let mut neighbour = connect_from(&world, [127, 0, 2, 1]).await;
    sockets.extend(untaken(&mut neighbour, &upstream, 2).await);
    held(&world, 3 << 20..).await;
    let mut large = connect_from(&world, [127, 0, 1, 2]).await;
    for _ in 0..6 {
        begin(&mut large, FULL);
    }
    ended(&mut large).await;
    assert!(neighbour.ready().await.is_ok() && small.ready().await.is_ok());
    // Three bodies of 2 MiB; a small frame of theirs counts as its block.
    held(&world, ..=7 << 20).await;
    assert_eq!(
        figure(&world.running, "sekisho_connections_given_up_total").await,
        1
    );
}

#[tokio::test]
async fn a_connection_that_holds_too_much_is_told_so() {
    let upstream = small();
    let mut setup = Setup::limits(LIMITS);
    setup.settings.bodies = 4 << 20;
    // All but one wait for a connection: neither the upstream nor the kernel takes them.
    let url = upstream.url();
    let site = format!(r#"{{"upstream": {{"servers": ["{url}"], "connections": 1}}}}"#);
    let world = World::of_setup(setup, &[(HOST, &site)]);
    let mut client = world.raw_http2().await;
    client
        .send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await;
    // The window of the connection.
    while client.next_frame().await != 8 {}
    // Streams have their window once the settings are acknowledged.
    client.send([0, 0, 0, 4, 1, 0, 0, 0, 0]).await;
    let post_of = |stream| {
        let fields = [&[0x83, 0x87, 0x84, 0x01, 9][..], HOST.as_bytes()].concat();
        [&[0, 0, 14, 1, 4, 0, 0, 0, stream][..], &fields].concat()
    };
    let piece = |stream| [&[0, 0x40, 0, 0, 0, 0, 0, 0, stream][..], &[0; 16 << 10]].concat();
    // As much as the windows allow: more than the server holds.
    for stream in [1, 3, 5, 7, 9, 11] {
        client.send(post_of(stream)).await;
        for _ in 0..127 {
            client.send(piece(stream)).await;
        }
    }
    let seen = client.rest().await;
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    let calm = |bytes: &[u8]| bytes[..9] == goaway && bytes[13..] == [0, 0, 0, 11];
    assert!(seen.windows(17).any(calm));
}

/// Begins requests of which the client takes next to nothing.
async fn stall(world: &World, from: [u8; 4], answers: usize) -> (Http2, Vec<Response<Incoming>>) {
    let stream = stream_from(world, from).await;
    let io = hyper_util::rt::TokioIo::new(stream);
    let mut two = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
    two.initial_stream_window_size(16);
    let (mut client, connection) = two.handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut begun = Vec::new();
    for _ in 0..answers {
        let get = Request::get(format!("https://{HOST}/")).body(crate::http2::empty());
        // Those behind the bound fail.
        begun.extend(patiently(client.send_request(get.unwrap())).await.ok());
    }
    (client, begun)
}

#[tokio::test]
async fn answers_that_no_client_takes_count_and_end_the_largest_connection() {
    let upstream = Upstream::bind().await;
    let mut setup = Setup::limits(LIMITS);
    setup.settings.bodies = 8 << 20;
    let world = World::of_setup(setup, &[(HOST, &upstream.site())]);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n{}",
        "x".repeat(1 << 20)
    );
    let _heads = upstream.answering(Box::leak(answer.into_boxed_str()));
    let (mut neighbour, _few) = stall(&world, [127, 0, 2, 1], 5).await;
    held(&world, FEW).await;
    println!(
        "5 answers hold {} bytes",
        figure(&world.running, HELD).await
    );
    let (mut greedy, _many) = stall(&world, [127, 0, 1, 1], 99).await;
    ended(&mut greedy).await;
    assert!(neighbour.ready().await.is_ok());
    held(&world, FEW).await;
}

/// Bytes that five answers hold whose client takes nothing.
const FEW: std::ops::RangeInclusive<u64> = 5 * (64 << 10)..=5 * (256 << 10);

/// More than the kernel holds of a body on its way to an upstream.
const FULL: usize = 20 << 20;

const HELD: &str = "sekisho_body_bytes_held";
