//! Bounds on what is compressed at once.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use sekisho_certs::Tenant;
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::encode::{Encoders, Gzip};
use crate::limits::budget::Prefix;
use crate::site::Coding;

/// Encoders, and the bounds on them. The server has one value, for all workers.
#[derive(Debug)]
pub(crate) struct Coders {
    encoders: Encoders,
    /// Permits of streams by client prefix, which decides how long they last.
    streams: Gate<Prefix>,
    /// Turns to compress by tenant, whose answers cost the time.
    turns: Gate<Tenant>,
}

/// Encoder of one answer, which is sent while it is compressed, with its permit.
pub(crate) type Encoder = (Box<Gzip>, Permit<Prefix>);

impl Coders {
    pub(crate) fn new() -> Self {
        Self {
            encoders: Encoders::default(),
            streams: Gate::new(MAX_STREAMS, Sharing::FewerThanLeft, 0),
            turns: Gate::new(threads(), Sharing::FewerThanLeft, MAX_WAITING),
        }
    }

    /// Begins a stream of gzip to a client. None if its prefix has its share of encoders:
    /// nobody waits for a smaller answer.
    pub(crate) fn try_encoder(&self, prefix: Prefix, level: u8) -> Option<Encoder> {
        let permit = self.streams.try_enter(prefix)?;
        Some((Box::new(self.encoders.gzip(level)), permit))
    }

    /// Compresses a body that is whole in memory: a short one at once, a longer one beside
    /// the worker. None if it gets no smaller, or has no turn in time.
    pub(crate) async fn whole(
        self: &Arc<Self>,
        tenant: &Tenant,
        coding: Coding,
        level: u8,
        body: Bytes,
    ) -> Option<Vec<u8>> {
        if body.len() <= AT_ONCE {
            return self.encoders.whole(coding, level, &body);
        }
        let turn = self.turn(tenant).await.ok()?;
        let coders = Arc::clone(self);
        let coded = spawn_blocking(move || {
            let _turn = turn;
            coders.encoders.whole(coding, level, &body)
        });
        coded.await.ok().flatten()
    }

    /// Waits for a turn to compress what is longer than [`AT_ONCE`].
    pub(super) async fn turn(&self, tenant: &Tenant) -> Result<Permit<Tenant>, Denied> {
        let until = Instant::now() + PATIENCE;
        self.turns.enter_until(tenant.clone(), until).await
    }

    pub(super) fn encoders(&self) -> &Encoders {
        &self.encoders
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
/// Answers that are compressed while they are sent; each has 270 KB, all together 70 MB.
const MAX_STREAMS: usize = 256;
/// Bodies and pieces that wait for a turn.
const MAX_WAITING: usize = 1024;
/// Longest wait for a turn. What then is left is sent as it is.
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
        let coders = Arc::new(Coders::new());
        let (busy, other) = (tenant("busy"), tenant("other"));
        let mut turns = Vec::new();
        while let Some(turn) = coders.turns.try_enter(busy.clone()) {
            turns.push(turn);
        }
        let begun = Instant::now();
        let coded = coders.whole(&busy, Coding::Gzip, 4, body()).await;
        assert_eq!((coded, begun.elapsed().as_secs()), (None, 10));
        let coded = coders.whole(&other, Coding::Gzip, 4, body()).await;
        assert!(coded.is_some());
        let short = body().slice(..AT_ONCE);
        let coded = coders.whole(&busy, Coding::Gzip, 4, short).await;
        assert!(coded.is_some(), "short bodies need no turn");
        turns.pop();
        let coded = coders.whole(&busy, Coding::Br, 4, body()).await;
        assert!(coded.is_some());
    }
}
