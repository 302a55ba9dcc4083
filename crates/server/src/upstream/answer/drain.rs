//! Rest of a script behind its answer: what it does after the last byte that the client gets,
//! such as to write its session, is not cut off.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::arriving::Arriving;
use super::{Chosen, Lease};

/// Reads the output of a script to its end, whose answer is complete without it. The
/// connection is kept for `keep` then; its permits are held until the end.
pub(super) fn drain(mut body: Arriving, via: Option<(Lease, Chosen)>, keep: Duration) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let drained = async move {
        let mut via = via;
        let mut read = 0;
        loop {
            let mut lease = via.as_mut().map(|(lease, _)| lease);
            let next = poll_fn(|cx| body.poll_frame(cx, lease.as_deref_mut()));
            match next.await {
                Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) => return,
                None => break,
            }
            if read > MOST {
                return;
            }
        }
        if let (Some((lease, chosen)), false) = (&mut via, body.is_owed()) {
            lease.release(keep, &chosen.server.kept);
        }
    };
    runtime.spawn(timeout(PATIENCE, drained));
}

/// Longest time that a script goes on.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes that are read and dropped.
const MOST: usize = 1 << 20;
