//! One question and its answer: over UDP, over TCP if the answer was cut off.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Message, MessageType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Sends a question to a name server and returns the answer. The caller bounds
/// the time.
pub(super) async fn exchange(server: SocketAddr, question: &Message) -> io::Result<Message> {
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let answer = over_udp(server, question, &bytes).await?;
    if answer.metadata.truncation {
        return over_tcp(server, question, &bytes).await;
    }
    Ok(answer)
}

async fn over_udp(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; usize::from(MAX_DATAGRAM)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // A datagram that is no answer to this question may be a forgery: the
        // answer may still come.
        if let Ok(answer) = Message::from_vec(&buffer[..length])
            && answers(&answer, question)
        {
            return Ok(answer);
        }
    }
}

/// RFC 7766: a message follows its length.
async fn over_tcp(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), bytes].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    let answer = Message::from_vec(&buffer).map_err(io::Error::other)?;
    if answers(&answer, question) {
        return Ok(answer);
    }
    Err(io::Error::other("the answer is to another question"))
}

fn answers(answer: &Message, question: &Message) -> bool {
    answer.metadata.message_type == MessageType::Response
        && answer.metadata.id == question.metadata.id
        && answer.queries == question.queries
}

/// Bytes of an answer over UDP. Larger datagrams would be fragmented on many
/// paths (DNS flag day 2020).
pub(super) const MAX_DATAGRAM: u16 = 1232;
