//! Questions in datagrams.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use sekisho_certs::Prefix;
use sekisho_dns::authority::Transport;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{CONNECTIONS, DATAGRAMS, Shared};

/// Socket that tells to which address each datagram was sent: an answer from another one
/// would be dropped by the resolver.
pub(super) struct Datagrams {
    pub(super) socket: UdpSocket,
    pub(super) state: UdpSocketState,
}

/// Answers datagrams.
pub(super) async fn serve(shared: Arc<Shared>, datagrams: Datagrams) {
    let datagrams = Arc::new(datagrams);
    let mut buffer = vec![0; LARGEST];
    loop {
        // An error may be an ICMP message about an answer: a pause would let forged senders
        // slow the others down.
        let failed = |error: &io::Error| tracing::debug!(%error, "no datagram was received");
        let Ok(meta) = datagrams.receive(&mut buffer).await.inspect_err(failed) else {
            continue;
        };
        // The kernel may put several of one sender into the buffer.
        for question in buffer[..meta.len.min(LARGEST)].chunks(meta.stride.max(1)) {
            if question.len() > MAX_QUESTION {
                continue;
            }
            let is_rare = shared.rate.take(Prefix::from(meta.addr.ip()), DATAGRAMS);
            let has_room = is_rare.is_ok() && shared.work.available_permits() > CONNECTIONS;
            let work = Arc::clone(&shared.work).try_acquire_owned();
            let Some(work) = work.ok().filter(|_| has_room) else {
                // Many networks at once are a flood as well. This answer waits for no read.
                let answer = datagrams.answer(&shared, question, Transport::Flood, &meta);
                answer.await;
                continue;
            };
            let (shared, datagrams) = (Arc::clone(&shared), Arc::clone(&datagrams));
            let question = question.to_vec();
            tokio::spawn(async move {
                let answer = datagrams.answer(&shared, &question, Transport::Udp, &meta);
                answer.await;
                drop(work);
            });
        }
    }
}

impl Datagrams {
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        let mut meta = [RecvMeta::default()];
        let received = self.socket.async_io(Interest::READABLE, || {
            let mut buffers = [IoSliceMut::new(buffer)];
            let socket = (&self.socket).into();
            self.state.recv(socket, &mut buffers, &mut meta)
        });
        received.await?;
        Ok(meta[0])
    }

    async fn answer(&self, shared: &Shared, question: &[u8], via: Transport, asked: &RecvMeta) {
        let answer = shared.answer(question, via, asked.addr.ip(), asked.dst_ip);
        let sent = answer.await.map(|answer| self.send(&answer, asked));
        if let Some(Err(error)) = sent {
            tracing::debug!(%error, "an answer was not sent");
        }
    }

    /// Sends an answer from the address that was asked. A full queue loses it, as any router
    /// may.
    fn send(&self, answer: &[u8], asked: &RecvMeta) -> io::Result<()> {
        let transmit = Transmit {
            destination: asked.addr,
            ecn: None,
            contents: answer,
            segment_size: None,
            src_ip: asked.dst_ip,
        };
        self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.socket).into(), &transmit)
        })
    }
}

/// Bytes of datagrams that the kernel gives at once.
const LARGEST: usize = 64 << 10;
/// Bytes of a question: a name of 255 and options.
pub(super) const MAX_QUESTION: usize = 512;
