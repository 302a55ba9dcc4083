//! Request and answer: over UDP, over TCP if the answer was cut off.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Message, MessageType, OpCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Sends a question or an update to a name server. Returns the answer, and its
/// bytes, which a signature covers. The caller bounds the time.
pub(crate) async fn exchange(
    server: SocketAddr,
    request: &Message,
) -> io::Result<(Message, Vec<u8>)> {
    let bytes = request.to_vec().map_err(io::Error::other)?;
    let answer = over_udp(server, request, &bytes).await?;
    if answer.0.metadata.truncation {
        return over_tcp(server, request, &bytes).await;
    }
    Ok(answer)
}

async fn over_udp(
    server: SocketAddr,
    request: &Message,
    bytes: &[u8],
) -> io::Result<(Message, Vec<u8>)> {
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
        // A datagram that is no answer to this request may be a forgery: the
        // answer may still come.
        if let Ok(answer) = Message::from_vec(&buffer[..length])
            && answers(&answer, request)
        {
            buffer.truncate(length);
            return Ok((answer, buffer));
        }
    }
}

/// RFC 7766: a message follows its length.
async fn over_tcp(
    server: SocketAddr,
    request: &Message,
    bytes: &[u8],
) -> io::Result<(Message, Vec<u8>)> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), bytes].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    let answer = Message::from_vec(&buffer).map_err(io::Error::other)?;
    if answers(&answer, request) {
        return Ok((answer, buffer));
    }
    Err(io::Error::other("the answer is to another request"))
}

fn answers(answer: &Message, request: &Message) -> bool {
    // A server may leave the zone out of its answer to an update (RFC 2136,
    // section 3.8).
    let is_bare = request.metadata.op_code == OpCode::Update && answer.queries.is_empty();
    answer.metadata.message_type == MessageType::Response
        && answer.metadata.id == request.metadata.id
        && (is_bare || answer.queries == request.queries)
}

/// Bytes of an answer over UDP. Larger datagrams would be fragmented on many
/// paths (DNS flag day 2020).
pub(crate) const MAX_DATAGRAM: u16 = 1232;
