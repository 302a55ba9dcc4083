//! Permits for open files: of a connection, of a client prefix, and of the server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sekisho_gate::{Gate, Permit, Sharing};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::limits::budget::Prefix;

/// Limit on the files that answers of one connection hold open.
///
/// The semaphore is allocated with the first file.
#[derive(Debug, Default)]
pub struct OpenFiles(OnceLock<Arc<Semaphore>>);

impl OpenFiles {
    fn permits(&self) -> Arc<Semaphore> {
        let permits = || Arc::new(Semaphore::new(OPEN_OF_CONNECTION));
        Arc::clone(self.0.get_or_init(permits))
    }
}

/// Client that a file is opened for: its connection and its prefix.
#[derive(Clone, Copy)]
pub(crate) struct Opener<'a> {
    pub(crate) connection: &'a OpenFiles,
    pub(crate) prefix: Prefix,
}

/// Limits on the files of the server and of each client prefix.
#[derive(Debug)]
pub(super) struct Permits(Gate<Prefix>);

impl Permits {
    pub(super) fn new() -> Self {
        let sharing = Sharing::AtMost(|_| OPEN_OF_PREFIX);
        Self(Gate::new(MAX_OPEN_FILES, sharing, MAX_WAITING))
    }

    /// Takes a permit of the connection, and one of its prefix; None if one of them has
    /// none free.
    pub(super) fn try_permit(&self, opener: Opener<'_>) -> Option<OpenPermit> {
        Some(OpenPermit {
            _own: opener.connection.permits().try_acquire_owned().ok()?,
            of_prefix: self.0.try_enter(opener.prefix)?,
        })
    }

    /// Waits for the two permits; None if one does not come free in time.
    pub(super) async fn permit(&self, opener: Opener<'_>) -> Option<OpenPermit> {
        let own = opener.connection.permits().acquire_owned();
        let own = timeout(OWN_WAIT, own).await.ok()?.ok()?;
        let until = Instant::now() + SHARED_WAIT;
        let of_prefix = self.0.enter_until(opener.prefix, until).await;
        Some(OpenPermit {
            _own: own,
            of_prefix: of_prefix.ok()?,
        })
    }
}

/// Permit to keep a file open for an answer.
#[derive(Debug)]
pub(crate) struct OpenPermit {
    _own: OwnedSemaphorePermit,
    of_prefix: Permit<Prefix>,
}

impl OpenPermit {
    /// Returns how many bytes of the file may be in memory: fewer with many open
    /// files of its prefix or of the server.
    pub(super) fn piece(&self) -> usize {
        let (open, all) = self.of_prefix.used();
        piece(BYTES_OF_PREFIX / open.max(1)).min(piece(BYTES_OF_ALL / all.max(1)))
    }
}

/// Rounds down to a power of two from [`SMALLEST_PIECE`] to [`PIECE`].
fn piece(share: usize) -> usize {
    let power = 1 << share.max(1).ilog2();
    power.clamp(SMALLEST_PIECE, PIECE)
}

/// Bytes of a piece: four TLS records. Encrypting it takes far longer than the
/// hop to the reading thread.
pub(super) const PIECE: usize = 64 << 10;
/// Bytes of a piece with as many open files as may be.
const SMALLEST_PIECE: usize = 4 << 10;
/// Open files of one connection, which take up to 1 MiB. Further answers wait
/// with their file closed.
const OPEN_OF_CONNECTION: usize = 16;
/// Open files of one client prefix: an eighth of the server's.
const OPEN_OF_PREFIX: usize = MAX_OPEN_FILES / 8;
/// Open files of the server.
pub const MAX_OPEN_FILES: usize = 8192;
/// Answers that wait for a permit of their prefix.
const MAX_WAITING: usize = MAX_OPEN_FILES;
/// Bytes that the first files of a prefix may have in memory. Later files get
/// smaller pieces, and all of them at most 2.5 times as much.
const BYTES_OF_PREFIX: usize = 8 << 20;
/// Bytes that the first files of the server may have in memory; all of them have
/// at most twice as much.
const BYTES_OF_ALL: usize = 128 << 20;
/// How long an answer waits for other answers on its connection: the client
/// chose to request them all at once.
const OWN_WAIT: Duration = Duration::from_secs(600);
/// How long an answer waits for those of other connections.
const SHARED_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn prefix(third: usize) -> Prefix {
        let [.., high, low] = u32::try_from(third).unwrap().to_be_bytes();
        IpAddr::from(Ipv4Addr::new(127, high, low, 1)).into()
    }

    /// Opens files over new connections until there is no permit.
    fn open_all(permits: &Permits, prefix: Prefix) -> Vec<OpenPermit> {
        let mut held = Vec::new();
        loop {
            let connection = &OpenFiles::default();
            match permits.try_permit(Opener { connection, prefix }) {
                Some(permit) => held.push(permit),
                None => return held,
            }
        }
    }

    #[test]
    fn a_prefix_leaves_permits_to_others() {
        let permits = Permits::new();
        let held = open_all(&permits, prefix(1));
        assert_eq!(held.len(), OPEN_OF_PREFIX);
        let other = open_all(&permits, prefix(2));
        assert_eq!(other.len(), OPEN_OF_PREFIX);
        drop(held);
        assert_eq!(open_all(&permits, prefix(1)).len(), OPEN_OF_PREFIX);
    }

    #[test]
    fn a_connection_leaves_permits_to_others() {
        let permits = Permits::new();
        let (connection, prefix) = (&OpenFiles::default(), prefix(1));
        let opener = Opener { connection, prefix };
        let held: Vec<_> = std::iter::from_fn(|| permits.try_permit(opener)).collect();
        assert_eq!(held.len(), OPEN_OF_CONNECTION);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_ten_seconds_for_its_prefix() {
        let permits = Permits::new();
        let mut held = open_all(&permits, prefix(1));
        let connection = &OpenFiles::default();
        let opener = Opener {
            connection,
            prefix: prefix(1),
        };
        let begun = tokio::time::Instant::now();
        assert!(permits.permit(opener).await.is_none());
        assert_eq!(begun.elapsed().as_secs(), 10);
        held.pop();
        assert!(permits.permit(opener).await.is_some());
    }

    #[test]
    fn many_files_have_small_pieces() {
        let permits = Permits::new();
        let mut of_all = 0;
        let mut held = Vec::new();
        for third in 0..MAX_OPEN_FILES / OPEN_OF_PREFIX {
            let mut of_prefix = 0;
            for _ in 0..OPEN_OF_PREFIX {
                let connection = &OpenFiles::default();
                let prefix = prefix(third);
                let permit = permits.try_permit(Opener { connection, prefix }).unwrap();
                let piece = permit.piece();
                assert!((SMALLEST_PIECE..=PIECE).contains(&piece), "{piece}");
                of_prefix += piece;
                held.push(permit);
            }
            assert!(of_prefix <= BYTES_OF_PREFIX * 5 / 2, "{of_prefix}");
            of_all += of_prefix;
        }
        assert!(of_all <= 2 * BYTES_OF_ALL, "{of_all}");
        let few = Permits::new();
        let mut alone = open_all(&few, prefix(1));
        alone.truncate(BYTES_OF_PREFIX / PIECE);
        assert_eq!(alone[0].piece(), PIECE);
    }
}
