//! Permits to open connections: a worker begins few of them at a time.
//!
//! A request over HTTP/2 that its client resets at once costs the server a socket: 300
//! of them, opened one after the other, let all other tasks wait for 50 ms. A permit
//! lasts until all tasks that are ready have run. Permits go round robin to the client
//! prefixes that wait. A request that is reset meanwhile opens nothing.

use std::pin::pin;

use futures_util::future::poll_immediate;
use sekisho_gate::{Denied, Gate, Sharing};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::limits::budget::Prefix;
use crate::upstream::failure::{Failure, Own, Waited};

/// Permits of one worker.
#[derive(Debug)]
pub(crate) struct Openings(Gate<Prefix>);

impl Openings {
    pub(crate) fn new() -> Self {
        Self(Gate::new(
            AT_ONCE,
            Sharing::AtMost(|_| AT_ONCE),
            MAX_WAITING,
        ))
    }

    /// Begins to open a connection with a permit of the client's prefix. The wait for the
    /// server itself keeps no permit: a server that does not answer holds up no other.
    ///
    /// # Errors
    /// Returns those of `open`, [`Own::Full`] if too many wait for a permit, and
    /// [`Waited::Begin`] if there is none until `until`.
    pub(in crate::upstream) async fn begin<T>(
        &self,
        prefix: Prefix,
        until: Instant,
        open: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let permit = self.0.enter_until(prefix, until).await;
        let permit = permit.map_err(|denied| match denied {
            Denied::Full => Own::Full,
            Denied::Late => Own::Late(Waited::Begin),
        })?;
        let mut open = pin!(open);
        let begun = poll_immediate(open.as_mut()).await;
        yield_now().await;
        drop(permit);
        match begun {
            Some(opened) => opened,
            None => open.await,
        }
    }
}

/// Connections that are begun before all other tasks have run: about 1 ms.
const AT_ONCE: usize = 16;
/// As many requests as 40 connections of HTTP/2 may have in flight.
const MAX_WAITING: usize = 4096;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    fn prefix(number: u8) -> Prefix {
        IpAddr::from(Ipv4Addr::new(192, 0, number, 1)).into()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn other_tasks_run_between_permits() {
        let (openings, begun) = (Arc::new(Openings::new()), Arc::new(AtomicUsize::new(0)));
        let mut opening = JoinSet::new();
        for _ in 0..1000 {
            let (openings, begun) = (Arc::clone(&openings), Arc::clone(&begun));
            opening.spawn(async move {
                let open = async {
                    begun.fetch_add(1, Relaxed);
                    Ok(())
                };
                openings.begin(prefix(1), later(), open).await
            });
        }
        let mut most = 0;
        while begun.load(Relaxed) < 1000 {
            let before = begun.load(Relaxed);
            yield_now().await;
            most = most.max(begun.load(Relaxed) - before);
        }
        assert!(opening.join_all().await.iter().all(Result::is_ok));
        assert!((1..=2 * AT_ONCE).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_keeps_no_permit() {
        let openings = Arc::new(Openings::new());
        let mut hung = JoinSet::new();
        for _ in 0..2 * AT_ONCE {
            let openings = Arc::clone(&openings);
            hung.spawn(async move {
                let hangs = pending::<Result<(), _>>();
                openings.begin(prefix(1), later(), hangs).await
            });
        }
        yield_now().await;
        let opened = openings.begin(prefix(2), later(), async { Ok(7) }).await;
        assert_eq!(opened.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_permit_ends() {
        let openings = Openings::new();
        let _held = [(); AT_ONCE].map(|()| openings.0.try_enter(prefix(1)).unwrap());
        let late = openings.begin(prefix(2), later(), async { Ok(()) }).await;
        assert!(matches!(late, Err(Failure::Own(Own::Late(Waited::Begin)))));
    }
}
