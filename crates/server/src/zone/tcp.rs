//! Questions in connections (RFC 7766), which CAs use if their address is forged.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::Prefix;
use sekisho_dns::authority::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::udp::MAX_QUESTION;

/// Accepts connections, and serves them.
pub(super) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Without descriptors, it would fail again at once.
            sleep(PAUSE).await;
            continue;
        };
        let prefix = Prefix::from(peer.ip());
        let permit = shared.connections.try_enter(prefix);
        let wider = shared.connections_wider.try_enter(prefix.wider());
        let work = Arc::clone(&shared.work).try_acquire_owned();
        let (Some(permit), Some(wider), Ok(work)) = (permit, wider, work) else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A client that goes away is no event.
            let _ = timeout(CONNECTION, converse(&shared, stream)).await;
            drop((permit, wider, work));
        });
    }
}

/// Answers the questions of a connection one after the other.
async fn converse(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    let (peer, local) = (stream.peer_addr()?.ip(), stream.local_addr()?.ip());
    loop {
        let question = timeout(IDLE, receive(&mut stream)).await??;
        let answer = shared.answer(&question, Transport::Tcp, peer, Some(local));
        let Some(answer) = answer.await else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let message = [&length.to_be_bytes()[..], &answer[..]].concat();
        timeout(IDLE, stream.write_all(&message)).await??;
    }
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_QUESTION {
        return Err(io::Error::other("no question is that long"));
    }
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await?;
    Ok(question)
}

/// Time without a question, or for an answer to be taken: a few seconds (RFC 7766, section
/// 6.2.3). Resolvers ask at once, and connections that others hold are few.
const IDLE: Duration = Duration::from_secs(2);
/// Time of a connection.
const CONNECTION: Duration = Duration::from_secs(20);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);
