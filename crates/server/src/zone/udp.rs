//! Questions in datagrams.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};

use super::Shared;
use super::sockets::Datagrams;

/// Answers datagrams until the sender of `stops` is gone, and those that were received then.
pub(super) async fn serve(
    shared: Arc<Shared>,
    datagrams: Datagrams,
    mut stops: watch::Receiver<()>,
) {
    let datagrams = Arc::new(datagrams);
    let mut buffer = vec![0; LARGEST];
    let mut answers = JoinSet::new();
    loop {
        let received = tokio::select! {
            received = datagrams.receive(&mut buffer) => received,
            _ = stops.changed() => break,
        };
        while answers.try_join_next().is_some() {}
        let meta = match received {
            Ok(meta) => meta,
            Err(error) => {
                // Perhaps an ICMP message about an answer: a pause would let forged senders
                // slow the others down.
                tracing::debug!(%error, "no datagram was received");
                yield_now().await;
                continue;
            }
        };
        let length = meta.len.min(buffer.len());
        for question in buffer[..length].chunks(meta.stride.max(1)) {
            if question.len() > MAX_QUESTION || answers.len() >= MOST {
                continue;
            }
            let (shared, datagrams) = (Arc::clone(&shared), Arc::clone(&datagrams));
            let question = question.to_vec();
            answers.spawn(async move {
                let peer = meta.addr.ip();
                let via = shared.datagram_of(peer);
                let answer = shared.answer(&question, via, peer, meta.dst_ip);
                if let Some(answer) = answer.await
                    && let Err(error) = datagrams.send(&answer, &meta)
                {
                    tracing::debug!(%error, "an answer was not sent");
                }
            });
        }
    }
    while answers.join_next().await.is_some() {}
}

/// Bytes of datagrams that the kernel gives at once.
const LARGEST: usize = 64 << 10;
/// Bytes of a question: a name of 255 and options.
pub(super) const MAX_QUESTION: usize = 512;
/// Answers under way at an address, some KiB each. More questions are dropped, as the kernel
/// does with a full queue.
const MOST: usize = 10_000;
