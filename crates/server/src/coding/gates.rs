//! Bounds on what is compressed at once.

use std::io;
use std::thread::available_parallelism;
use std::time::Duration;

use sekisho_certs::Tenant;
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::encode::{Gzip, at_once};
use crate::limits::budget::Prefix;

/// Bounds on encoders. The server has one value, for all workers.
#[derive(Debug)]
pub(crate) struct Coders {
    /// Permits of streams by client prefix, which decides how long they last.
    streams: Gate<Prefix>,
    /// Permits of bodies in memory by tenant, as many as turns: a crowd of bodies waits here,
    /// and not before the streams of its tenant.
    bodies: Gate<Tenant>,
    /// Turns to compress by tenant, whose answers cost the time.
    pub(super) turns: Gate<Tenant>,
}

/// Encoder of one answer, which is sent while it is compressed, with its level and permit.
pub(crate) type Encoder = (Box<Gzip>, u8, Permit<Prefix>);

impl Coders {
    pub(crate) fn new() -> Self {
        let threads = threads();
        Self {
            streams: Gate::new(MAX_STREAMS, Sharing::FewerThanLeft, 0),
            bodies: Gate::new(threads, Sharing::FewerThanLeft, MAX_WAITING),
            turns: Gate::new(threads, Sharing::FewerThanLeft, MAX_STREAMS + threads),
        }
    }

    /// Begins a stream of gzip to a client. None if its prefix has its share of encoders:
    /// nobody waits for a smaller answer.
    pub(crate) fn try_encoder(&self, prefix: Prefix, level: u8) -> Option<Encoder> {
        let permit = self.streams.try_enter(prefix)?;
        Some((Box::new(Gzip::new(level)), level, permit))
    }

    /// Compresses a body of so many bytes: a short one at once, any other beside the worker.
    /// Returns none if too many bodies wait, or this one waits too long.
    pub(crate) async fn whole<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        (level, bytes): (u8, usize),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if bytes <= at_once(level) {
            return Some(work());
        }
        let until = Instant::now() + PATIENCE;
        let _permit = self.bodies.enter_until(tenant.clone(), until).await.ok()?;
        self.beside(tenant, work).await.ok()
    }

    /// Does work beside the worker, in a turn of the tenant. Each caller gets one, since a
    /// stream that has begun can't be sent in another way: a stream wants one turn at once, and
    /// so does a body with a permit. No more wait than there is room for.
    ///
    /// # Errors
    /// If the work panics.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.turns.enter(tenant.clone()).await;
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        Ok(done.await?)
    }
}

/// Threads that compress at most, all of which may be of one worker. Of more than four cores,
/// half are left to the workers. Of two turns, one tenant has one.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(2, |cores| (cores.get() / 2).max(2))
}

/// Answers that are compressed while they are sent; each has 300 KB, all together 77 MB.
const MAX_STREAMS: usize = 256;
/// Bodies that wait for a permit.
const MAX_WAITING: usize = 1024;
/// Longest wait of a body.
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
    async fn a_body_without_a_permit_in_time_stays_as_it_is() {
        let coders = Coders::new();
        let (busy, other) = (tenant("busy"), tenant("other"));
        let mut permits = Vec::new();
        while let Some(permit) = coders.bodies.try_enter(busy.clone()) {
            permits.push(permit);
        }
        let begun = Instant::now();
        let late = coders.whole(&busy, (4, 4097), || ()).await;
        assert_eq!((late, begun.elapsed().as_secs()), (None, 10));
        assert!(coders.whole(&other, (4, 4097), || ()).await.is_some());
        // Short ones need none, but the highest level may take long.
        assert!(coders.whole(&busy, (4, 4096), || ()).await.is_some());
        assert!(coders.whole(&busy, (9, 4096), || ()).await.is_none());
        permits.pop();
        assert!(coders.whole(&busy, (9, 4096), || ()).await.is_some());
    }
}
