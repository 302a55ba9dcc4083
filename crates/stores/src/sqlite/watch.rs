//! Noticing what other connections and other processes did.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use super::file::StoreFile;
use super::inline::InlineReaders;
use super::read::StoreConnection;
use super::slot::{Role, Slot};

/// A thread that polls every 25 ms whether a commit or another file came; it
/// ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    changed: Arc<watch::Sender<()>>,
    _stop: SyncSender<()>,
}

impl Watch {
    pub(super) fn start(file: Arc<StoreFile>, inline: Arc<InlineReaders>) -> io::Result<Self> {
        let changed = Arc::new(watch::Sender::new(()));
        let (stop, stopped) = sync_channel(0);
        let slot = file.slot(None, Role::Reader);
        let notify = Arc::clone(&changed);
        thread::Builder::new()
            .name("sqlite-watch".to_owned())
            .spawn(move || {
                inline.open();
                poll(&file, &slot, &notify, &inline, &stopped);
            })?;
        Ok(Self {
            changed,
            _stop: stop,
        })
    }

    /// Resolves at the next change from now on.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changed.subscribe();
        async move {
            // The sender lives as long as the store that was asked.
            let _ = changes.changed().await;
        }
    }

    /// Spares the store's own writes the wait for the next poll.
    pub(super) fn notify(&self) -> Arc<watch::Sender<()>> {
        Arc::clone(&self.changed)
    }
}

fn poll(
    file: &StoreFile,
    slot: &Slot,
    changed: &watch::Sender<()>,
    inline: &InlineReaders,
    stopped: &Receiver<()>,
) {
    let mut seen = None;
    // The first poll waits too: starting up must not.
    while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let replaced = file.follow();
        // Opens connections that failed before, or were closed with their file.
        inline.open();
        // A file that can't be read is reported to those who read it.
        let version = slot.with(StoreConnection::data_version).ok();
        if replaced || (version.is_some() && version != seen) {
            seen = version;
            changed.send_replace(());
        }
    }
}

/// Share of the 100 ms that [`CACHE_TIMEOUT`](sekisho_certs::feed::CACHE_TIMEOUT)
/// adds up.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
