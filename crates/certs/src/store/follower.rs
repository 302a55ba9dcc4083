//! What follows a change log.

use super::{BoxFuture, ChangePage, LogPosition};

/// Reader of the log: a cache that a change may make wrong, or a task that
/// waits for a change.
///
/// A server hands each page to its followers in this order:
///
/// 1. `RedisCache` (`stores/redis_cache.rs`) and `DiskCache`
///    (`stores/disk_cache/resync.rs`), at the same time;
/// 2. [`Sealer`](crate::Sealer) (`seal/sealer/check.rs`), which looks for another
///    sealing key;
/// 3. [`Lookup`](crate::Lookup) (`lookup/apply.rs`), which then reads nothing old
///    from the caches;
/// 4. [`Documents`](crate::Documents) (`feed/documents.rs`), which tells those who keep documents.
///
/// Followers ignore [`Change::what`](super::Change::what): a copy is dropped
/// and read again, whether its subject was put or removed.
///
/// - Pages arrive in the order of the log, and each continues the one before.
///   Where that is not so, [`Self::start_over`] is called instead.
/// - A returned future that has resolved tells that the effect holds: a read
///   that begins afterwards gets nothing that the page replaced.
/// - A future may be dropped, and is then followed by [`Self::late`]. The page
///   is not given again.
pub trait Follower: Send + Sync + 'static {
    /// Applies a page that continues what was applied.
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()>;

    /// Trusts nothing that was remembered before, and applies changes behind
    /// `at` from now on.
    fn start_over(&self, at: LogPosition) -> BoxFuture<'_, ()>;

    /// Tells that the last call was dropped because it took too long. Until
    /// the follower has caught up by itself, it answers nothing, and its calls
    /// return at once.
    fn late(&self) {}

    /// Reports whether changes arrive. [`FeedState::Healthy`] is repeated each
    /// second; a follower says how long without a repetition counts as broken.
    fn feed_is(&self, _: FeedState) {}
}

/// State of the change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FeedState {
    /// No feed: a store without a change log.
    None,
    /// Each change arrives. Counts as [`Self::Broken`] some seconds after the feed last
    /// said so.
    Healthy,
    /// Changes may be missing.
    Broken,
}

impl FeedState {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Healthy, Self::Broken];

    /// Returns the word for it in metrics and in `/healthz`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Healthy => "healthy",
            Self::Broken => "broken",
        }
    }
}
