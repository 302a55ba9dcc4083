//! The master keys of this process, and reading their source again when a key
//! is met that is not among them.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{KeyError, KeyRing, KeySource};

/// A ring of keys that may grow while it is used.
#[derive(Debug)]
pub struct Keys {
    ring: Arc<RwLock<Arc<KeyRing>>>,
    source: Option<KeySource>,
    /// The end of the last reload; locked while one runs.
    reloaded: Arc<Mutex<Option<Instant>>>,
}

impl Keys {
    /// Loads the keys of a source, which is read again when a key is missing.
    /// Blocks as [`KeySource::load`] does.
    ///
    /// # Errors
    /// As [`KeySource::load`].
    pub fn load(source: &KeySource) -> Result<Self, KeyError> {
        let mut keys = Self::from(source.load()?);
        keys.source = Some(source.clone());
        Ok(keys)
    }

    /// Returns the present keys.
    #[must_use]
    pub fn ring(&self) -> Arc<KeyRing> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&ring)
    }

    /// Returns the ring, with this key if the source gives it in time.
    pub(super) async fn with(&self, id: u32) -> Arc<KeyRing> {
        let ring = self.ring();
        match &self.source {
            Some(source) if !ring.has(id) => {
                // A reload that takes longer goes on without the caller.
                let _ = timeout(KEY_TIMEOUT, self.reload(source)).await;
                self.ring()
            }
            _ => ring,
        }
    }

    /// Tells whether the source is being read.
    pub(super) fn is_reloading(&self) -> bool {
        self.reloaded.try_lock().is_err()
    }

    /// Describes the source as the operator knows it.
    pub(super) fn describe(&self) -> String {
        match &self.source {
            Some(source) => source.to_string(),
            None => "the ring given".to_owned(),
        }
    }

    /// Reads the source in a thread, since that may block; not within a second
    /// after the last time.
    async fn reload(&self, source: &KeySource) {
        let mut reloaded = Arc::clone(&self.reloaded).lock_owned().await;
        if reloaded.is_some_and(|end| end.elapsed() < MIN_RELOAD_INTERVAL) {
            return;
        }
        let (source, ring) = (source.clone(), Arc::clone(&self.ring));
        let read = move || {
            match source.load() {
                Ok(new) => {
                    let mut ring = ring.write().unwrap_or_else(PoisonError::into_inner);
                    // Keys that could be opened stay, even if the source has
                    // lost them.
                    *ring = Arc::new(new.with_all(&ring));
                }
                Err(error) => {
                    tracing::warn!(%error, "the master keys could not be read again: new keys are missing");
                }
            }
            *reloaded = Some(Instant::now());
        };
        // Without a thread the next caller tries again.
        let _ = thread::Builder::new().name("keys".to_owned()).spawn(read);
        // The thread holds the lock until it has read.
        drop(self.reloaded.lock().await);
    }
}

/// Keys that stay as they are.
impl From<KeyRing> for Keys {
    fn from(ring: KeyRing) -> Self {
        Self {
            ring: Arc::new(RwLock::new(Arc::new(ring))),
            source: None,
            reloaded: Arc::default(),
        }
    }
}

/// Time that opening a store, and a load, wait for a key that is new. A client
/// waits no longer.
const KEY_TIMEOUT: Duration = Duration::from_secs(2);
/// Bounds the readings of the source for a key that is nowhere.
const MIN_RELOAD_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_key_is_read_once_a_second_and_nothing_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let first = KeyRing::create_file(&path).unwrap().first();
        let keys = Keys::load(&KeySource::File(path.clone())).unwrap();
        let second = KeyRing::extend_file(&path).unwrap();
        assert!(!keys.ring().has(second));
        let ring = keys.with(second).await;
        assert!(ring.has(first) && ring.has(second));
        // Right behind a reading the next is not begun.
        let third = KeyRing::extend_file(&path).unwrap();
        assert!(!keys.with(third).await.has(third));
        assert!(keys.reloaded.lock().await.take().is_some());
        KeyRing::shorten_file(&path, first).unwrap();
        let ring = keys.with(third).await;
        assert!(ring.has(third) && ring.has(first), "{ring:?}");
    }
}
