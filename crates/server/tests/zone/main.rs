//! Asks the name server of a zone as resolvers and floods do.

#![allow(clippy::unwrap_used)]

mod connections;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_certs::store::{BoxFuture, Document, DocumentId, Result};
use sekisho_certs::{ChallengeSource, Secret, StoreError, Texts};
use sekisho_dns::authority::Zone;
use sekisho_server::{NameServer, ZoneSockets};
use sekisho_testkit::services::free_ports;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

/// Datagrams that a network may send at once.
const DATAGRAMS: usize = 100;

/// Texts of a catalog that counts, holds and fails reads.
#[derive(Debug)]
struct Source {
    texts: Mutex<Texts>,
    reads: AtomicUsize,
    fails: AtomicBool,
    held: Semaphore,
}

impl Source {
    fn put(&self, name: &str, value: &str) {
        let mut texts = self.texts.lock().unwrap();
        texts
            .entry(name.to_owned())
            .or_default()
            .push(value.to_owned());
    }
}

impl ChallengeSource for Source {
    fn challenge<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<Secret>>>> {
        panic!("unexpected read of {id}")
    }

    fn texts(&self) -> BoxFuture<'_, Result<Texts>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let found = self.texts.lock().unwrap().clone();
            self.held.acquire().await.unwrap().forget();
            match self.fails.load(Ordering::SeqCst) {
                true => Err(StoreError::Unavailable("the test says so".into())),
                false => Ok(found),
            }
        })
    }
}

struct Running {
    source: Arc<Source>,
    address: SocketAddr,
    registry: Registry,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

fn start(ip: &str) -> Running {
    let [port] = free_ports();
    let address = SocketAddr::new(ip.parse().unwrap(), port);
    let source = Arc::new(Source {
        texts: Mutex::default(),
        reads: AtomicUsize::new(0),
        fails: AtomicBool::new(false),
        held: Semaphore::new(Semaphore::MAX_PERMITS),
    });
    let sockets = ZoneSockets::bind(address).unwrap();
    let zone = Zone::new("dcv.test", Vec::new()).unwrap();
    let server = NameServer::new(zone, vec![sockets], Arc::clone(&source) as _);
    let mut registry = Registry::default();
    server.register(&mut registry);
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    Running {
        source,
        address,
        registry,
        stop,
        ended,
    }
}

fn question(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

/// Returns a socket of this address, connected: only answers of that server come through.
async fn client(from: [u8; 4], to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::from(from), 0)).await.unwrap();
    socket.connect(to).await.unwrap();
    socket
}

async fn received(socket: &UdpSocket) -> Message {
    let mut buffer = [0; 1500];
    let length = timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await;
    Message::from_vec(&buffer[..length.unwrap().unwrap()]).unwrap()
}

async fn ask(running: &Running, name: &str, kind: RecordType) -> Message {
    let socket = client([127, 0, 0, 1], running.address).await;
    socket.send(&question(name, kind)).await.unwrap();
    received(&socket).await
}

fn texts(message: &Message) -> Vec<String> {
    let text = |data: &RData| match data {
        RData::TXT(txt) => String::from_utf8(txt.txt_data.concat()).unwrap(),
        other => panic!("{other:?}"),
    };
    message.answers.iter().map(|one| text(&one.data)).collect()
}

async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn send(stream: &mut TcpStream, question: &[u8]) {
    let length = u16::try_from(question.len()).unwrap().to_be_bytes();
    let message = [&length[..], question].concat();
    stream.write_all(&message).await.unwrap();
}

/// Reads an answer; none if the connection ends.
async fn answer(stream: &mut TcpStream) -> Option<Message> {
    let read = async {
        let length = stream.read_u16().await.ok()?;
        let mut bytes = vec![0; usize::from(length)];
        stream.read_exact(&mut bytes).await.ok()?;
        Some(Message::from_vec(&bytes).unwrap())
    };
    timeout(Duration::from_secs(5), read).await.unwrap()
}

#[tokio::test]
async fn a_challenge_written_before_the_question_is_answered() {
    let running = start("127.0.0.1");
    for value in ["one", "two", "three", "four", "five"] {
        let name = format!("{value}.dcv.test.");
        running.source.put(&name, value);
        running.source.put(&name, "beside");
        let asked = name.to_uppercase();
        let answer = ask(&running, &asked, RecordType::TXT).await;
        assert_eq!(texts(&answer), [value, "beside"]);
        assert_eq!(answer.queries[0].name().to_ascii(), asked);
    }
    assert_eq!(running.source.reads.load(Ordering::SeqCst), 5);
    // Other questions cost nothing.
    for kind in [RecordType::A, RecordType::CAA, RecordType::NS] {
        assert!(texts(&ask(&running, "one.dcv.test.", kind).await).is_empty());
    }
    let refused = ask(&running, "one.example.", RecordType::TXT).await;
    assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
    assert_eq!(running.source.reads.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn floods_read_at_most_six_times_a_second() {
    const NETWORKS: u8 = 200;
    const ROUNDS: usize = 50;
    let running = start("0.0.0.0");
    running.source.put("a.dcv.test.", "text");
    let mut sockets = Vec::new();
    for network in 0..NETWORKS {
        let to = SocketAddr::from(([127, 0, 0, 1], running.address.port()));
        sockets.push(client([127, 1, network, 1], to).await);
    }
    let question = question("a.dcv.test.", RecordType::TXT);
    let mut answered = 0;
    let mut count = |sockets: &[UdpSocket]| {
        let mut buffer = [0; 1500];
        for socket in sockets {
            while let Ok(length) = socket.try_recv(&mut buffer) {
                let message = Message::from_vec(&buffer[..length]).unwrap();
                assert_eq!(texts(&message), ["text"]);
                answered += 1;
            }
        }
    };
    let mut ticks = interval(Duration::from_millis(100));
    for _ in 0..ROUNDS {
        ticks.tick().await;
        for socket in &sockets {
            socket.send(&question).await.unwrap();
        }
        count(&sockets);
    }
    for _ in 0..10 {
        ticks.tick().await;
        count(&sockets);
    }
    let reads = running.source.reads.load(Ordering::SeqCst);
    assert!(reads <= 30, "{reads} reads");
    // The kernel may lose datagrams.
    let sent = usize::from(NETWORKS) * ROUNDS;
    assert!(answered >= sent - sent / 100, "{answered} answers");
}

#[tokio::test]
async fn a_ca_is_answered_by_tcp_while_its_address_is_forged() {
    let running = start("127.0.0.1");
    running.source.put("a.dcv.test.", "text");
    let forger = client([127, 9, 9, 1], running.address).await;
    let question = question("a.dcv.test.", RecordType::TXT);
    for _ in 0..DATAGRAMS * 2 {
        forger.send(&question).await.unwrap();
    }
    let ca = client([127, 9, 9, 9], running.address).await;
    let empty = loop {
        // A token may have come back in this moment.
        ca.send(&question).await.unwrap();
        let message = received(&ca).await;
        if message.metadata.truncation {
            break message;
        }
    };
    assert!(empty.answers.is_empty());
    assert_eq!(empty.to_vec().unwrap().len(), question.len());
    let mut stream = connect([127, 9, 9, 9], running.address).await;
    send(&mut stream, &question).await;
    assert_eq!(texts(&answer(&mut stream).await.unwrap()), ["text"]);
    // Other networks are not told to come over TCP.
    assert_eq!(
        texts(&ask(&running, "a.dcv.test.", RecordType::TXT).await),
        ["text"]
    );
    let mut text = String::new();
    encode(&mut text, &running.registry).unwrap();
    for line in [
        "dns_questions_total{outcome=\"truncated\"} ",
        "dns_reads_total ",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// Forged networks that each keep to their rate must not take all reads of the zone.
#[tokio::test]
async fn a_flood_of_many_networks_is_told_to_come_over_tcp() {
    let running = start("0.0.0.0");
    running.source.put("a.dcv.test.", "text");
    running.source.held.forget_permits(usize::MAX);
    let to = SocketAddr::from(([127, 0, 0, 1], running.address.port()));
    let question = question("a.dcv.test.", RecordType::TXT);
    let mut sockets = Vec::new();
    for network in 0..150 {
        sockets.push(client([127, 1, network, 1], to).await);
    }
    // More than 10,000 that wait, though the kernel may lose some.
    for _ in 0..DATAGRAMS - 10 {
        for socket in &sockets {
            socket.send(&question).await.unwrap();
        }
        sleep(Duration::from_millis(5)).await;
    }
    let ca = client([127, 2, 2, 1], to).await;
    ca.send(&question).await.unwrap();
    let message = received(&ca).await;
    assert!(message.metadata.truncation && message.answers.is_empty());
    let mut stream = connect([127, 2, 2, 1], to).await;
    send(&mut stream, &question).await;
    running.source.held.add_permits(1000);
    assert_eq!(texts(&answer(&mut stream).await.unwrap()), ["text"]);
}

#[tokio::test]
async fn an_answer_leaves_from_the_asked_address() {
    let running = start("0.0.0.0");
    let to = SocketAddr::from(([127, 0, 0, 2], running.address.port()));
    let socket = client([127, 0, 0, 1], to).await;
    let question = question("ns.dcv.test.", RecordType::A);
    socket.send(&question).await.unwrap();
    let message = received(&socket).await;
    let address = message.answers[0].data.ip_addr();
    assert_eq!(address, Some(IpAddr::from([127, 0, 0, 2])));
    let mut stream = connect([127, 0, 0, 1], to).await;
    send(&mut stream, &question).await;
    let message = answer(&mut stream).await.unwrap();
    assert_eq!(message.answers[0].data.ip_addr(), address);
}

#[tokio::test]
async fn failures_of_the_catalog_are_told_and_end() {
    let running = start("127.0.0.1");
    running.source.put("a.dcv.test.", "text");
    running.source.fails.store(true, Ordering::SeqCst);
    let failed = ask(&running, "a.dcv.test.", RecordType::TXT).await;
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
    running.source.fails.store(false, Ordering::SeqCst);
    assert_eq!(
        texts(&ask(&running, "a.dcv.test.", RecordType::TXT).await),
        ["text"]
    );
}

#[tokio::test]
async fn what_is_no_question_stops_nothing() {
    let running = start("127.0.0.1");
    let socket = client([127, 0, 0, 1], running.address).await;
    let whole = question("a.dcv.test.", RecordType::TXT);
    for bytes in [&[][..], &[0; 11], &[0xff; 600], &[0; 1400]] {
        socket.send(bytes).await.unwrap();
    }
    socket.send(&whole[..whole.len() - 2]).await.unwrap();
    let message = received(&socket).await;
    assert_eq!(message.metadata.response_code, ResponseCode::FormErr);
    socket.send(&whole).await.unwrap();
    let message = received(&socket).await;
    assert_eq!(message.metadata.response_code, ResponseCode::NoError);
}

#[tokio::test]
async fn a_question_that_was_taken_is_answered_after_the_stop() {
    let running = start("127.0.0.1");
    running.source.put("a.dcv.test.", "text");
    running.source.held.forget_permits(usize::MAX);
    let socket = client([127, 0, 0, 1], running.address).await;
    let question = question("a.dcv.test.", RecordType::TXT);
    socket.send(&question).await.unwrap();
    while running.source.reads.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    running.stop.send(()).unwrap();
    running.source.held.add_permits(1);
    assert_eq!(texts(&received(&socket).await), ["text"]);
    let ended = timeout(Duration::from_secs(5), running.ended).await;
    ended.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}
