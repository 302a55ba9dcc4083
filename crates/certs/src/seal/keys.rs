//! The master keys of this process, and reading their source again when a key
//! is met that is not among them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use super::{KeyError, KeyRing, KeySource};

/// A ring of keys that may grow while it is used.
#[derive(Debug)]
pub struct Keys {
    ring: Arc<RwLock<Arc<KeyRing>>>,
    source: Option<KeySource>,
    reload: Mutex<Option<Reload>>,
}

/// Reload of the source by a thread, since it may block.
#[derive(Debug)]
struct Reload {
    begun: Instant,
    /// Closed when it ended.
    ended: watch::Receiver<()>,
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

    /// Returns the ring, with this key if the source gives it within that time.
    pub(super) async fn with(&self, id: u32, wait: Duration) -> Arc<KeyRing> {
        let ring = self.ring();
        if ring.has(id) {
            return ring;
        }
        if let Some(mut ended) = self.reload() {
            // Nothing is ever sent: it is closed when the reading has ended,
            // or the wait is over.
            let _ = timeout(wait, ended.changed()).await;
        }
        self.ring()
    }

    /// Whether the source is being read.
    pub(super) fn is_reloading(&self) -> bool {
        let reload = self.reload.lock();
        let reload = reload.unwrap_or_else(PoisonError::into_inner);
        reload.as_ref().is_some_and(Reload::runs)
    }

    /// Describes the source as the operator knows it.
    pub(super) fn describe(&self) -> String {
        match &self.source {
            Some(source) => source.to_string(),
            None => "the ring given".to_owned(),
        }
    }

    /// Begins to read the source, unless that was begun within the last
    /// second; gives what is closed at the end of it.
    fn reload(&self) -> Option<watch::Receiver<()>> {
        let source = self.source.clone()?;
        let reload = self.reload.lock();
        let mut reload = reload.unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*reload
            && (last.runs() || last.begun.elapsed() < MIN_RELOAD_INTERVAL)
        {
            return Some(last.ended.clone());
        }
        let (end, ended) = watch::channel(());
        let ring = Arc::clone(&self.ring);
        thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || {
                match source.load() {
                    Ok(new) => {
                        let mut ring = ring.write().unwrap_or_else(PoisonError::into_inner);
                        // Keys that could be opened stay, even if the source
                        // has lost them.
                        *ring = Arc::new(new.with_all(&ring));
                    }
                    Err(error) => tracing::warn!(%error, "the master keys could not be read again: new keys are missing"),
                }
                drop(end);
            })
            .ok()?;
        *reload = Some(Reload {
            begun: Instant::now(),
            ended: ended.clone(),
        });
        Some(ended)
    }
}

impl Reload {
    fn runs(&self) -> bool {
        self.ended.has_changed().is_ok()
    }
}

/// Keys that stay as they are.
impl From<KeyRing> for Keys {
    fn from(ring: KeyRing) -> Self {
        Self {
            ring: Arc::new(RwLock::new(Arc::new(ring))),
            source: None,
            reload: Mutex::new(None),
        }
    }
}

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
        let wait = Duration::from_secs(20);
        let ring = keys.with(second, wait).await;
        assert!(ring.has(first) && ring.has(second));
        // Right behind a reading the next is not begun.
        let third = KeyRing::extend_file(&path).unwrap();
        assert!(!keys.with(third, wait).await.has(third));
        let last = keys.reload.lock().unwrap().take();
        assert!(!last.unwrap().runs());
        KeyRing::shorten_file(&path, first).unwrap();
        let ring = keys.with(third, wait).await;
        assert!(ring.has(third) && ring.has(first), "{ring:?}");
    }
}
