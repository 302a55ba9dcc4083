//! Carries the catalog's changes into the lookup and to whoever keeps
//! documents.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};

use crate::lookup::{Apply, FeedState};
use crate::store::{Catalog, Change, Position, Result, Subject};

/// The task that follows the log. It runs on the background runtime until it
/// is dropped.
#[derive(Debug)]
pub struct Feed {
    catalog: Arc<dyn Catalog>,
    documents: broadcast::Sender<DocumentEvent>,
}

/// What the log says of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEvent {
    /// This one was put or removed.
    Changed {
        /// Its kind.
        kind: Arc<str>,
        /// Its key.
        key: Arc<str>,
    },
    /// Changes may have been missed: read everything again.
    All,
}

impl Feed {
    /// Follows this catalog.
    #[must_use]
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self {
            catalog,
            documents: broadcast::Sender::new(DOCUMENT_EVENTS),
        }
    }

    /// Events from now on. One who lags behind reads everything again, as
    /// after [`DocumentEvent::All`].
    #[must_use]
    pub fn documents(&self) -> broadcast::Receiver<DocumentEvent> {
        self.documents.subscribe()
    }

    /// Follows until it is dropped: at each hint of the catalog, and from time
    /// to time without one.
    pub async fn run(self, target: Arc<dyn Apply>) {
        let mut broken = false;
        loop {
            // Made before reading: what changes after the reading wakes it.
            let hint = self.catalog.changed();
            match self.catch_up(target.as_ref()).await {
                Ok(()) => {
                    if std::mem::take(&mut broken) {
                        tracing::info!("the change feed is back");
                    }
                    target.feed_is(FeedState::Healthy);
                    // Whether the hint came or the time passed: look.
                    let _ = timeout(LOOK_AT_LEAST, hint).await;
                }
                Err(error) => {
                    if !std::mem::replace(&mut broken, true) {
                        tracing::warn!(%error, "the change feed is broken, freshness limits hold");
                    }
                    target.feed_is(FeedState::Broken);
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn catch_up(&self, target: &dyn Apply) -> Result<()> {
        let Some(mut applied) = target.applied() else {
            let position = self.catalog.position().await?;
            self.start_over(target, position);
            return Ok(());
        };
        loop {
            let page = self.catalog.changes(applied.number, PAGE).await?;
            if page.log != applied.log || page.gap {
                tracing::warn!("the change log does not continue here, reading everything again");
                self.start_over(
                    target,
                    Position {
                        log: page.log,
                        number: page.last,
                    },
                );
                return Ok(());
            }
            target.apply(&page);
            page.changes.iter().for_each(|change| self.announce(change));
            match page.changes.last() {
                Some(last) if page.changes.len() == PAGE => applied.number = last.number,
                _ => return Ok(()),
            }
        }
    }

    fn start_over(&self, target: &dyn Apply, position: Position) {
        target.restart(position);
        self.send(DocumentEvent::All);
    }

    fn announce(&self, change: &Change) {
        if let Subject::Document { kind, key } = &change.subject {
            self.send(DocumentEvent::Changed {
                kind: kind.as_str().into(),
                key: key.as_str().into(),
            });
        }
    }

    fn send(&self, event: DocumentEvent) {
        // Nobody may be listening.
        let _ = self.documents.send(event);
    }
}

/// Changes in one page: bounds the time for which the lookup's lock is held.
const PAGE: usize = 1000;
/// How long to wait without a hint.
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const RETRY: Duration = Duration::from_millis(250);
/// Events that a slow reader may lag behind before it reads everything.
const DOCUMENT_EVENTS: usize = 256;
