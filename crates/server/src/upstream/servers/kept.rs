//! Unused connections to a FastCGI server that are kept: each binds a child of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Count of the unused connections of all workers to one server.
#[derive(Debug)]
pub(in crate::upstream) struct Kept {
    count: Arc<AtomicU32>,
    most: u32,
}

impl Kept {
    /// Makes the count of a server to which at most so many are kept.
    pub(super) fn new(most: u32) -> Self {
        let count = Arc::default();
        Self { count, most }
    }

    /// Returns whether any is kept.
    pub(in crate::upstream) fn any(&self) -> bool {
        self.most > 0
    }

    /// Counts one more, until it is dropped. None if there are as many as may be. Relaxed:
    /// the number guards no other data.
    pub(in crate::upstream) fn take(&self) -> Option<KeptOne> {
        let more = |kept: u32| (kept < self.most).then_some(kept + 1);
        let counted = self.count.fetch_update(Relaxed, Relaxed, more);
        counted.ok().map(|_| KeptOne(Arc::clone(&self.count)))
    }
}

/// One of the unused connections that are kept.
#[derive(Debug)]
pub(in crate::upstream) struct KeptOne(Arc<AtomicU32>);

impl Drop for KeptOne {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_may_be() {
        assert!(Kept::new(0).take().is_none());
        let kept = Kept::new(2);
        let two = [kept.take().unwrap(), kept.take().unwrap()];
        assert!(kept.take().is_none());
        drop(two);
        assert!(kept.take().is_some());
    }
}
