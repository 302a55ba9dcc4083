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
    reading: Mutex<Option<Reading>>,
}

/// A thread reads the source, since that may block.
#[derive(Debug)]
struct Reading {
    begun: Instant,
    /// Closed when it ended.
    ended: watch::Receiver<()>,
}

impl Keys {
    /// What a source holds now; it is read again when a key is missing. It
    /// blocks as [`KeySource::load`] does.
    ///
    /// # Errors
    /// As [`KeySource::load`].
    pub fn load(source: &KeySource) -> Result<Self, KeyError> {
        let mut keys = Self::from(source.load()?);
        keys.source = Some(source.clone());
        Ok(keys)
    }

    /// The keys as they are now.
    #[must_use]
    pub fn ring(&self) -> Arc<KeyRing> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&ring)
    }

    /// The ring, with this key if it can be had within that time.
    pub(super) async fn with(&self, id: u32, wait: Duration) -> Arc<KeyRing> {
        let ring = self.ring();
        if ring.has(id) {
            return ring;
        }
        if let Some(mut ended) = self.read_again() {
            // Nothing is ever sent: it is closed when the reading has ended,
            // or the wait is over.
            let _ = timeout(wait, ended.changed()).await;
        }
        self.ring()
    }

    /// Whether the source is being read.
    pub(super) fn is_reading(&self) -> bool {
        let reading = self.reading.lock();
        let reading = reading.unwrap_or_else(PoisonError::into_inner);
        reading.as_ref().is_some_and(Reading::runs)
    }

    /// Where the keys are read, as the operator knows it.
    pub(super) fn shown(&self) -> String {
        match &self.source {
            Some(source) => source.to_string(),
            None => "the ring given".to_owned(),
        }
    }

    /// Begins to read the source, unless that was begun within the last
    /// second; gives what is closed at the end of it.
    fn read_again(&self) -> Option<watch::Receiver<()>> {
        let source = self.source.clone()?;
        let reading = self.reading.lock();
        let mut reading = reading.unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*reading
            && (last.runs() || last.begun.elapsed() < EVERY)
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
                        // What could be opened stays open, whatever became of
                        // the source.
                        *ring = Arc::new(new.with_all(&ring));
                    }
                    Err(error) => tracing::warn!(%error, "the master keys can't be read again"),
                }
                drop(end);
            })
            .ok()?;
        *reading = Some(Reading {
            begun: Instant::now(),
            ended: ended.clone(),
        });
        Some(ended)
    }
}

impl Reading {
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
            reading: Mutex::new(None),
        }
    }
}

/// A key that is met again and again, and is nowhere, costs one reading in
/// this time.
const EVERY: Duration = Duration::from_secs(1);

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
        let last = keys.reading.lock().unwrap().take();
        assert!(!last.unwrap().runs());
        KeyRing::shorten_file(&path, first).unwrap();
        let ring = keys.with(third, wait).await;
        assert!(ring.has(third) && ring.has(first), "{ring:?}");
    }
}
