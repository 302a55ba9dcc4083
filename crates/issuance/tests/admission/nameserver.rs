//! Name server that answers as a test says: for what the challenge server can't.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::{Name, RData, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// Transport of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

/// Fills the answer to a question.
pub(crate) type Answering = dyn Fn(&Query, Over, &mut Message) + Send + Sync;

/// Starts a server, over UDP and TCP, that ends with the runtime.
pub(crate) async fn start(
    answer: impl Fn(&Query, Over, &mut Message) + Send + Sync + 'static,
) -> SocketAddr {
    let answer: Arc<Answering> = Arc::new(answer);
    let (udp, tcp) = bound().await;
    let address = udp.local_addr().unwrap();
    tokio::spawn(over_udp(udp, Arc::clone(&answer)));
    tokio::spawn(over_tcp(tcp, answer));
    address
}

/// Binds one port for both; another process may have taken it for one of them.
async fn bound() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn over_udp(socket: UdpSocket, answer: Arc<Answering>) {
    let mut buffer = [0; 1500];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
        let bytes = answered(&buffer[..length], Over::Udp, &*answer);
        socket.send_to(&bytes, client).await.unwrap();
    }
}

async fn over_tcp(listener: TcpListener, answer: Arc<Answering>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut question = vec![0; usize::from(length)];
        stream.read_exact(&mut question).await.unwrap();
        let bytes = answered(&question, Over::Tcp, &*answer);
        stream
            .write_u16(bytes.len().try_into().unwrap())
            .await
            .unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
}

fn answered(question: &[u8], over: Over, answer: &Answering) -> Vec<u8> {
    let question = Message::from_vec(question).unwrap();
    let mut message = Message::response(question.metadata.id, OpCode::Query);
    message.add_queries(question.queries.iter().cloned());
    answer(&question.queries[0], over, &mut message);
    message.to_vec().unwrap()
}

/// Adds a record to an answer.
pub(crate) fn add(message: &mut Message, name: &str, data: RData) {
    let name = Name::from_ascii(name).unwrap();
    message.add_answer(Record::from_rdata(name, 60, data));
}
