//! Tells those who keep documents which of them changed.

use std::future::ready;

use tokio::sync::broadcast;

use super::Follower;
use crate::store::{BoxFuture, ChangePage, DocumentId, LogPosition, Subject};

/// Announces changed documents to its subscribers.
#[derive(Debug)]
pub struct Documents(broadcast::Sender<DocumentEvent>);

/// News of the log about documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEvent {
    /// The document was put or removed.
    Changed(DocumentId),
    /// Changes may have been missed: read everything again.
    All,
}

impl Documents {
    /// Subscribes to events from now on. A subscriber that lags behind reads
    /// everything again, as after [`DocumentEvent::All`].
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<DocumentEvent> {
        self.0.subscribe()
    }

    fn send(&self, event: DocumentEvent) {
        // An error means that there is no subscriber.
        let _ = self.0.send(event);
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_LAG))
    }
}

impl Follower for Documents {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        for change in &page.changes {
            if let Subject::Document(id) = &change.subject {
                self.send(DocumentEvent::Changed(id.clone()));
            }
        }
        Box::pin(ready(()))
    }

    fn start_over(&self, _: LogPosition) -> BoxFuture<'_, ()> {
        self.send(DocumentEvent::All);
        Box::pin(ready(()))
    }
}

/// Events that a slow subscriber may lag behind before it reads everything.
const MAX_LAG: usize = 256;
