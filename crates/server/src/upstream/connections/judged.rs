//! Unix sockets of one worker that `[sites] allow` has just judged. A FastCGI server gets a
//! connection for each request: without these, each would open its socket anew on another
//! thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;
use sekisho_certs::lock;
use tokio::time::Instant;

use super::pool::Key;
use crate::site::OpenSocket;

/// Sockets by the connections that they are for, each for [`FRESH`].
#[derive(Debug, Default)]
pub(in crate::upstream) struct Judged(Mutex<Sockets>);

type Sockets = HashMap<Key, (Arc<OpenSocket>, Instant), RandomState>;

impl Judged {
    /// Returns a socket that was judged within [`FRESH`].
    pub(in crate::upstream) fn find(&self, key: &Key, now: Instant) -> Option<Arc<OpenSocket>> {
        let sockets = lock(&self.0);
        let (socket, since) = sockets.get(key)?;
        (now < *since + FRESH).then(|| Arc::clone(socket))
    }

    /// Keeps a socket that was judged now. Old ones make room; if there are too many new
    /// ones, it is not kept.
    pub(in crate::upstream) fn keep(&self, key: &Key, socket: &Arc<OpenSocket>, now: Instant) {
        let mut sockets = lock(&self.0);
        if sockets.len() >= MOST {
            sockets.retain(|_, (_, since)| now < *since + FRESH);
        }
        let own = sockets.keys().filter(|other| other.owner == key.owner);
        if sockets.len() < MOST && own.count() < OF_OWNER {
            sockets.insert(key.clone(), (Arc::clone(socket), now));
        }
    }

    /// Forgets a socket at which nobody listens.
    pub(in crate::upstream) fn forget(&self, key: &Key) {
        lock(&self.0).remove(key);
    }

    /// Forgets old sockets, and closes them.
    pub(in crate::upstream) fn sweep(&self, now: Instant) {
        lock(&self.0).retain(|_, (_, since)| now < *since + FRESH);
    }
}

/// How long a verdict holds, as for files.
const FRESH: Duration = Duration::from_secs(1);
/// Sockets of one worker, each of which takes a descriptor.
const MOST: usize = 256;
/// Sockets of one owner: those of a tenant with a socket for each host leave room for others'.
const OF_OWNER: usize = 16;
