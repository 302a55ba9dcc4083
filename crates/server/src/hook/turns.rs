//! Turns of a hook's code on one worker, by client prefix.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::{FairPermit, FairSemaphore, Prefix};

/// Turns of one worker: one at a time, round robin to the client networks that wait and do
/// not rest. Clones are one.
#[derive(Clone, Debug)]
pub struct Turns(Arc<FairSemaphore<Prefix>>);

/// Turn on a worker. Dropping it passes the turn on.
#[derive(Debug)]
pub struct Turn(FairPermit<Prefix>);

impl Turn {
    /// Passes the turn on. Its network has none for `pause`.
    pub fn rest(self, pause: Duration) {
        self.0.rest(pause);
    }
}

impl Turns {
    /// Makes the turns of one worker.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(FairSemaphore::new(1, 1, MAX_WAITING)))
    }

    /// Waits for a turn of the client's network; none if too many wait, which the network
    /// with most of them notices first.
    pub async fn take(&self, client: IpAddr) -> Option<Turn> {
        let permit = FairSemaphore::enter(&self.0, client.into()).await;
        permit.ok().map(Turn)
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs of a worker that wait for a turn: four times what the longest runs use of a
/// handshake's default deadline of 5 s.
const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A hundred runs of one network that wait delay none of another.
    #[tokio::test]
    async fn networks_take_turns() {
        let turns = Turns::new();
        let take = |client: &str| {
            let (turns, client) = (turns.clone(), client.parse().unwrap());
            Box::pin(async move { turns.take(client).await })
        };
        let first = take("198.51.100.1").await.unwrap();
        let mut crowd: Vec<_> = (0..100).map(|_| take("198.51.100.1")).collect();
        assert!(crowd.iter_mut().all(|run| run.now_or_never().is_none()));
        let mut neighbours = [take("192.0.2.7"), take("192.0.2.7")];
        assert!(
            neighbours
                .iter_mut()
                .all(|run| run.now_or_never().is_none())
        );
        drop(first);
        // The network that has just had a turn goes after the other one.
        let [first, second] = &mut neighbours;
        drop(first.now_or_never().flatten().expect("a turn"));
        assert!(second.now_or_never().is_none());
        drop((&mut crowd[0]).now_or_never().flatten().expect("a turn"));
        drop(second.now_or_never().flatten().expect("a turn"));
        assert!((&mut crowd[1]).now_or_never().flatten().is_some());
    }

    /// While the network of a long stretch rests, another one has turns at once, and it
    /// has none itself, though nobody else waits.
    #[tokio::test(start_paused = true)]
    async fn a_network_that_rests_gives_way() {
        let turns = Turns::new();
        let take = |client: &str| {
            let (turns, client) = (turns.clone(), client.parse().unwrap());
            Box::pin(async move { turns.take(client).await })
        };
        let pause = Duration::from_millis(20);
        let first = take("198.51.100.1").await.unwrap();
        let mut crowd: Vec<_> = (0..3).map(|_| take("198.51.100.1")).collect();
        assert!(crowd.iter_mut().all(|run| run.now_or_never().is_none()));
        first.rest(pause);
        let mut late = take("198.51.100.2");
        assert!((&mut crowd[0]).now_or_never().is_none());
        assert!((&mut late).now_or_never().is_none());
        for _ in 0..2 {
            drop(take("192.0.2.7").now_or_never().flatten().expect("a turn"));
        }
        // The pause ends while another network has the turn.
        let other = take("192.0.2.7").await.unwrap();
        sleep(pause + Duration::from_millis(1)).await;
        assert!((&mut crowd[0]).now_or_never().is_none());
        drop(other);
        let second = (&mut crowd[0]).now_or_never().flatten().expect("a turn");
        // It ends while nobody has it.
        second.rest(pause);
        let begun = Instant::now();
        drop((&mut crowd[1]).await.expect("a turn"));
        assert!(begun.elapsed() >= pause);
        drop((&mut crowd[2]).await.expect("a turn"));
        drop(late.await.expect("a turn"));
    }
}
