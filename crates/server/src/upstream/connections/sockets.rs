//! Permits to open Unix sockets: a file system that hangs keeps few threads.

use std::io;

use sekisho_certs::Tenant;
use sekisho_gate::{Denied, Gate, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::upstream::failure::{Failure, Own, Waited};

/// Limits on sockets that are being opened. A call that hangs keeps its permit and its
/// thread: a tenant has at most [`OF_TENANT`] of [`MOST`].
#[derive(Debug)]
pub(crate) struct Sockets(Gate<Tenant>);

impl Sockets {
    pub(crate) fn new() -> Self {
        Self(Gate::new(MOST, Sharing::AtMost(|_| OF_TENANT), MAX_WAITING))
    }

    /// Calls `open` on a thread for blocking calls, with a permit of the tenant.
    ///
    /// # Errors
    /// [`Own::Full`] if too many requests wait already, [`Waited::Socket`] if there is no
    /// permit until `until`, and [`Failure::SocketLate`] if the tenant has all that it may
    /// have, or the call takes longer; else those of `open`.
    pub(in crate::upstream) async fn open<T, F>(
        &self,
        tenant: &Tenant,
        until: Instant,
        open: F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        let permit = self.0.enter_until(tenant.clone(), until).await;
        let permit = permit.map_err(|denied| match denied {
            Denied::Full => Own::Full.into(),
            Denied::Late if self.0.used_by(tenant) < OF_TENANT => Own::Late(Waited::Socket).into(),
            Denied::Late => Failure::SocketLate,
        })?;
        let opened = spawn_blocking(move || {
            let _permit = permit;
            open()
        });
        match timeout_at(until, opened).await {
            Ok(Ok(opened)) => opened.map_err(Failure::Connect),
            Ok(Err(ended)) => Err(Failure::Connect(io::Error::other(ended))),
            Err(_) => Err(Failure::SocketLate),
        }
    }
}

/// Sockets that are being opened: as many as a worker has threads beside those that
/// read files.
const MOST: usize = 8;
/// Sockets that are being opened of one tenant.
const OF_TENANT: usize = 2;
/// Requests that wait to open one.
const MAX_WAITING: usize = 4096;

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::{Arc, Mutex, mpsc};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn too_many_requests_that_wait_speak_against_no_server() {
        let sockets = Sockets::new();
        let (busy, other) = (Tenant::default(), Tenant::parse("other").unwrap());
        let _used = [(); OF_TENANT].map(|()| sockets.0.try_enter(busy.clone()).unwrap());
        let late = Instant::now() + Duration::from_secs(20);
        let mut context = Context::from_waker(Waker::noop());
        let waits = (0..MAX_WAITING).map(|_| {
            let mut wait = Box::pin(sockets.0.enter(busy.clone()));
            let polled = Pin::new(&mut wait).poll(&mut context);
            (polled.is_pending(), wait)
        });
        let waits: Vec<_> = waits.collect();
        assert!(waits.iter().all(|(is_pending, _)| *is_pending));
        let refused = sockets.open(&busy, late, || Ok(1)).await.unwrap_err();
        assert!(
            refused.is_busy() && !refused.is_of_connecting(),
            "{refused}"
        );
        assert_eq!(sockets.open(&other, late, || Ok(2)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_file_system_that_hangs_delays_no_other_tenant() {
        let sockets = Sockets::new();
        let [hung, well] = ["hung", "well"].map(|name| Tenant::parse(name).unwrap());
        let (release, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(Mutex::new(hangs));
        let soon = || Instant::now() + Duration::from_millis(50);
        for _ in 0..4 {
            let hangs = Arc::clone(&hangs);
            let open = move || {
                let _ = hangs.lock().unwrap().recv();
                Ok(())
            };
            let opened = sockets.open(&hung, soon(), open).await;
            assert!(matches!(opened, Err(Failure::SocketLate)), "{opened:?}");
        }
        assert_eq!(sockets.0.used(), OF_TENANT);
        let late = Instant::now() + Duration::from_secs(20);
        assert_eq!(sockets.open(&well, late, || Ok(1)).await.unwrap(), 1);
        drop(release);
        assert_eq!(sockets.open(&hung, late, || Ok(2)).await.unwrap(), 2);
    }
}
