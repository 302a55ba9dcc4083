//! Turns to open Unix sockets: a file system that hangs keeps few threads.

use std::io;
use std::sync::Arc;

use sekisho_certs::Tenant;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::failure::{Failure, Own, Waited};
use crate::shares::Shares;

/// Limits on sockets that are being opened. A call that hangs keeps its turn and its
/// thread: a tenant has at most [`OF_TENANT`] of [`MOST`].
#[derive(Debug)]
pub(crate) struct SocketTurns {
    all: Arc<Semaphore>,
    shares: Shares<String>,
}

impl SocketTurns {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MOST)),
            shares: Shares::default(),
        }
    }

    /// Calls `open` on a thread for blocking calls, once it is the tenant's turn.
    ///
    /// # Errors
    /// [`Waited::Socket`] if all turns are taken until `until`, and
    /// [`Failure::SocketLate`] if the tenant's are, or the call takes longer; else those of
    /// `open`.
    pub(super) async fn open<T, F>(
        &self,
        tenant: &Tenant,
        until: Instant,
        open: F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        let own = self.share(tenant);
        // The tenant's comes first: a call that waits for it holds no other turn.
        let own = timeout_at(until, own.acquire_owned()).await;
        let own = own.map_err(|_| Failure::SocketLate)?;
        let all = timeout_at(until, Arc::clone(&self.all).acquire_owned()).await;
        let all = all.map_err(|_| Own::Late(Waited::Socket))?;
        let opened = spawn_blocking(move || {
            let opened = open();
            drop((own, all));
            opened
        });
        match timeout_at(until, opened).await {
            Ok(Ok(opened)) => opened.map_err(Failure::Connect),
            Ok(Err(ended)) => Err(Failure::Connect(io::Error::other(ended))),
            Err(_) => Err(Failure::SocketLate),
        }
    }

    fn share(&self, tenant: &Tenant) -> Arc<Semaphore> {
        self.shares.share(tenant.as_str(), OF_TENANT)
    }
}

/// Sockets that are being opened: as many as a worker has threads beside those that
/// read files.
const MOST: usize = 8;
/// Sockets that are being opened of one tenant.
const OF_TENANT: usize = 2;

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_file_system_that_hangs_delays_no_other_tenant() {
        let turns = SocketTurns::new();
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
            let opened = turns.open(&hung, soon(), open).await;
            assert!(matches!(opened, Err(Failure::SocketLate)), "{opened:?}");
        }
        assert_eq!(turns.all.available_permits(), MOST - OF_TENANT);
        let late = Instant::now() + Duration::from_secs(20);
        assert_eq!(turns.open(&well, late, || Ok(1)).await.unwrap(), 1);
        drop(release);
        assert_eq!(turns.open(&hung, late, || Ok(2)).await.unwrap(), 2);
    }
}
