//! Bounds on what is compressed at once.

use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use sekisho_certs::Tenant;
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::encode::{Gzip, compress};
use crate::limits::budget::Prefix;
use crate::site::Coding;

/// Bounds on encoders. The server has one value, for all workers.
#[derive(Debug)]
pub(crate) struct Coders {
    /// Permits of streams by client prefix, which decides how long they last.
    streams: Gate<Prefix>,
    /// Turns to compress by tenant, whose answers cost the time.
    pub(super) turns: Gate<Tenant>,
}

/// Encoder of one answer, which is sent while it is compressed, with its permit.
pub(crate) type Encoder = (Box<Gzip>, Permit<Prefix>);

impl Coders {
    pub(crate) fn new() -> Self {
        Self {
            streams: Gate::new(MAX_STREAMS, Sharing::FewerThanLeft, 0),
            turns: Gate::new(threads(), Sharing::FewerThanLeft, MAX_WAITING),
        }
    }

    /// Begins a stream of gzip to a client. None if its prefix has its share of encoders:
    /// nobody waits for a smaller answer.
    pub(crate) fn try_encoder(&self, prefix: Prefix, level: u8) -> Option<Encoder> {
        let permit = self.streams.try_enter(prefix)?;
        Some((Box::new(Gzip::new(level)), permit))
    }

    /// Compresses a body that is whole in memory: a short one at once, a longer one beside
    /// the worker. None if it gets no smaller, or has no turn in time.
    pub(crate) async fn whole(
        &self,
        tenant: &Tenant,
        (coding, level): (Coding, u8),
        body: Bytes,
    ) -> Option<Vec<u8>> {
        if body.len() <= AT_ONCE {
            return compress(coding, level, &body);
        }
        let coded = self.beside(tenant, move || compress(coding, level, &body));
        coded.await.flatten()
    }

    /// Does work on more than [`AT_ONCE`] bytes beside the worker. None if the tenant gets no
    /// turn for it in time.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let until = Instant::now() + PATIENCE;
        let turn = self.turns.enter_until(tenant.clone(), until).await.ok()?;
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

/// Threads that compress at most, all of which may be of one worker: half of the cores are
/// left to the workers. Of two turns, one tenant has one.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(2, |cores| (cores.get() / 2).max(2))
}

/// Bytes that a worker compresses itself: they take some 20 µs, as the way to another thread
/// does.
pub(super) const AT_ONCE: usize = 4 << 10;
/// Answers that are compressed while they are sent; each has 300 KB, all together 77 MB.
const MAX_STREAMS: usize = 256;
/// Bodies and pieces that wait for a turn.
const MAX_WAITING: usize = 1024;
/// Longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn prefix(third: u8) -> Prefix {
        IpAddr::from(Ipv4Addr::new(192, 0, third, 1)).into()
    }

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).unwrap()
    }

    fn body() -> Bytes {
        "a text that shrinks ".repeat(1000).into()
    }

    #[test]
    fn a_prefix_leaves_encoders_to_others() {
        let coders = Coders::new();
        let take = |third| -> Vec<_> {
            std::iter::from_fn(|| coders.try_encoder(prefix(third), 4)).collect()
        };
        let (first, second) = (take(1), take(2));
        assert_eq!((first.len(), second.len()), (128, 64));
        drop(first);
        assert!(coders.try_encoder(prefix(1), 4).is_some());
        drop(second);
        assert_eq!(coders.streams.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_a_turn_in_time_stays_as_it_is() {
        let coders = Coders::new();
        let (busy, other) = (tenant("busy"), tenant("other"));
        let mut turns = Vec::new();
        while let Some(turn) = coders.turns.try_enter(busy.clone()) {
            turns.push(turn);
        }
        let begun = Instant::now();
        let coded = coders.whole(&busy, (Coding::Gzip, 4), body()).await;
        assert_eq!((coded, begun.elapsed().as_secs()), (None, 10));
        let coded = coders.whole(&other, (Coding::Gzip, 4), body()).await;
        assert!(coded.is_some());
        let short = body().slice(..AT_ONCE);
        let coded = coders.whole(&busy, (Coding::Gzip, 4), short).await;
        assert!(coded.is_some(), "short bodies need no turn");
        turns.pop();
        let coded = coders.whole(&busy, (Coding::Br, 4), body()).await;
        assert!(coded.is_some());
    }
}
