//! Keeps the ticket keys of a ring up to date with their source.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::store::{Document, Precondition, Write};
use sekisho_certs::{Clock, DocumentEvent, SealedBytes, Sealer, StoreError};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::sleep;

use super::ring::{Ring, Timed};
use super::schedule::{is_alive, missing, next, period_of, sealing};
use super::{document, file};
use crate::error::Error;

/// Source of ticket keys.
#[derive(Debug)]
pub enum Source {
    /// Document that all servers with the sealer's catalog share. The first that finds
    /// a key missing makes it.
    Catalog(Sealer, broadcast::Receiver<DocumentEvent>),
    /// File of 48 or 80 bytes in nginx's format, which another program writes
    /// and rotates. It is read every 10 s.
    File(PathBuf),
    /// Random keys of this process: no session resumes after a restart, only after a
    /// hand-over.
    Process,
}

/// Task that keeps a ring up to date, on the background runtime.
#[derive(Debug)]
pub struct Keeper {
    source: Source,
    /// Keys of the source when it was last read. Those of a file are the current one, which
    /// seals, and the one before it.
    known: Vec<Timed>,
    /// Keys made by this process, because the catalog had none for a period.
    own: Vec<Timed>,
    /// True while `known` has keys of another process, which no source has confirmed.
    is_handed: bool,
    ring: Arc<Ring>,
    clock: Clock,
}

impl Keeper {
    /// Makes a keeper of `ring` for `source`.
    #[must_use]
    pub fn new(source: Source, ring: Arc<Ring>, clock: Clock) -> Self {
        Self {
            source,
            known: Vec::new(),
            own: Vec::new(),
            is_handed: false,
            ring,
            clock,
        }
    }

    /// Reads the source once and updates the ring. Returns how long to wait
    /// before the next refresh. Called before the first accept, it lets clients
    /// of an earlier process resume at once.
    ///
    /// # Errors
    /// If the source gives no keys; the ring keeps its own. A catalog's key
    /// never seals beyond its period. If the next one is missing, a key of this
    /// process seals.
    pub async fn refresh(&mut self) -> Result<Duration, Error> {
        let now = self.clock.now();
        let (known, own) = (&mut self.known, &mut self.own);
        match &self.source {
            Source::Catalog(sealer, _) => {
                let refreshed = refresh_catalog(sealer, known, now).await;
                known.retain(|key| is_alive(now, key.from));
                own.retain(|key| is_alive(now, key.from));
                let mut all = [&own[..], known].concat();
                let current = period_of(now);
                if refreshed.is_err() && all.iter().all(|key| key.from != current) {
                    own.push(Timed::random(current));
                    all.extend(own.last().cloned());
                }
                install(&self.ring, &all, now);
                refreshed.map_err(|error| Error::Tickets(error.to_string()))?;
            }
            Source::File(path) => {
                let read = file::read(path, now).await?;
                let is_same = |key: &Timed| (key.name, &key.secret) == (read.name, &read.secret);
                if !known.first().is_some_and(is_same) {
                    // Keys of another source would open tickets until the file changes.
                    if std::mem::take(&mut self.is_handed) {
                        known.clear();
                    }
                    known.insert(0, read);
                    known.truncate(2);
                }
                self.is_handed = false;
                self.ring.install(known, 0);
                return Ok(FILE_CHECK);
            }
            Source::Process => {
                known.retain(|key| is_alive(now, key.from));
                let made = missing(now, known).into_iter().map(Timed::random);
                known.extend(made);
                install(&self.ring, known, now);
            }
        }
        let seconds = u64::try_from(next(now, known) - now).unwrap_or(0);
        Ok(Duration::from_secs(seconds).clamp(RETRY_INTERVAL, LOOK_AT_LEAST))
    }

    /// Installs the keys of a cached document of a catalog that is unavailable,
    /// as if they had been read. It writes nothing. Returns whether there were
    /// any.
    pub async fn begin_with(&mut self, document: &Document<SealedBytes>) -> bool {
        let Source::Catalog(sealer, _) = &self.source else {
            return false;
        };
        if document.id != document::ID {
            return false;
        }
        let opened = sealer.open_document(document.clone()).await;
        let keys = opened
            .ok()
            .and_then(|opened| document::decode(opened.bytes.expose()));
        let now = self.clock.now();
        self.known = keys.unwrap_or_default();
        self.known.retain(|key| is_alive(now, key.from));
        install(&self.ring, &self.known, now);
        !self.known.is_empty()
    }

    /// Installs the keys that [`Ring::keys`] of another process gave, before the first
    /// refresh. Returns whether there were any that still hold. Both processes open each
    /// other's tickets then:
    ///
    /// - keys of a process are used on, and new ones made a period ahead;
    /// - a catalog's count until it is read, which replaces them;
    /// - of a file's, the one before the current one is kept if the file has not changed.
    pub fn begin_with_keys(&mut self, keys: &[u8]) -> bool {
        let now = self.clock.now();
        let mut keys = document::decode(keys).unwrap_or_default();
        keys.retain(|key| is_alive(now, key.from));
        if keys.is_empty() {
            return false;
        }
        match &self.source {
            Source::Catalog(..) | Source::Process => install(&self.ring, &keys, now),
            Source::File(_) => self.ring.install(&keys, 0),
        }
        (self.known, self.is_handed) = (keys, true);
        true
    }

    /// Refreshes in a loop: when the last refresh's wait is over, and when the
    /// catalog announces a change.
    pub async fn run(mut self) {
        let mut broken = false;
        loop {
            let wait = match self.refresh().await {
                Ok(wait) => {
                    if std::mem::take(&mut broken) {
                        tracing::info!("ticket keys are refreshed again");
                    }
                    wait
                }
                Err(error) => {
                    if !std::mem::replace(&mut broken, true) {
                        tracing::warn!(%error, "ticket keys can't be refreshed: the current ones stay in use");
                    }
                    RETRY_INTERVAL
                }
            };
            match &mut self.source {
                Source::Catalog(_, events) => tokio::select! {
                    () = sleep(wait) => {}
                    () = keys_changed(events) => {}
                },
                Source::File(_) | Source::Process => sleep(wait).await,
            }
        }
    }
}

/// Resolves when the keys may have changed.
async fn keys_changed(events: &mut broadcast::Receiver<DocumentEvent>) {
    loop {
        match events.recv().await {
            Ok(DocumentEvent::Changed(id)) if id != document::ID => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Reads the catalog's keys, and makes those that are missing. Of several servers that do,
/// the catalog takes the first one's. `known` has the keys read or written last, after a
/// failure, too.
async fn refresh_catalog(
    sealer: &Sealer,
    known: &mut Vec<Timed>,
    now: i64,
) -> Result<(), StoreError> {
    let expect = read(sealer, known, now).await?;
    let starts = missing(now, known);
    if starts.is_empty() {
        return Ok(());
    }
    let mut keys = known.clone();
    keys.extend(starts.into_iter().map(Timed::random));
    let write = Write::PutDocument(Document::new(document::ID, document::encode(&keys)), expect);
    match sealer.write(vec![write]).await {
        Ok(_) => *known = keys,
        Err(StoreError::Conflict(_)) => {
            read(sealer, known, now).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Reads the document's live keys into `known`.
async fn read(
    sealer: &Sealer,
    known: &mut Vec<Timed>,
    now: i64,
) -> Result<Precondition, StoreError> {
    let Some(stored) = sealer.document(&document::ID).await? else {
        known.clear();
        return Ok(Precondition::Absent);
    };
    let mut keys = document::decode(stored.bytes.expose()).ok_or_else(|| {
        StoreError::Corrupt("the ticket keys are of a format that this version can't read".into())
    })?;
    keys.retain(|key| is_alive(now, key.from));
    *known = keys;
    Ok(Precondition::Version(stored.version))
}

fn install(ring: &Ring, keys: &[Timed], now: i64) {
    if let Some(sealing) = sealing(now, keys) {
        ring.install(keys, sealing);
    }
}

/// Interval of refreshes while keys are missing or the source fails.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Longest interval of refreshes: the change feed may lose an announcement.
const LOOK_AT_LEAST: Duration = Duration::from_secs(300);

/// Interval of reading a key file.
const FILE_CHECK: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
