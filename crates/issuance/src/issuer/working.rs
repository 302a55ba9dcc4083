//! Lineages that this process works on, so that others join.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sekisho_certs::{LineageName, lock};
use tokio::sync::watch;

use super::{Issued, NoCertificate};

/// Work in progress, by lineage: orders in flight, and visits that wait for another
/// server.
#[derive(Clone, Debug, Default)]
pub(super) struct Working(Arc<Mutex<HashMap<LineageName, Receiver>>>);

type Receiver = watch::Receiver<Option<Outcome>>;
pub(super) type Outcome = Result<Issued, NoCertificate>;

/// Work that one waits for.
pub(super) struct Joined(Receiver);

/// Work that is this task's. Dropping it ends the work without an outcome.
pub(super) struct Mine {
    working: Working,
    name: LineageName,
    sender: watch::Sender<Option<Outcome>>,
}

impl Working {
    /// Returns the work on this lineage, if there is one.
    pub(super) fn join(&self, name: &LineageName) -> Option<Joined> {
        lock(&self.0).get(name).cloned().map(Joined)
    }

    /// Joins the work on this lineage, or begins it: then the caller does it.
    pub(super) fn begin(&self, name: &LineageName) -> (Joined, Option<Mine>) {
        let mut all = lock(&self.0);
        if let Some(there) = all.get(name) {
            return (Joined(there.clone()), None);
        }
        let (sender, receiver) = watch::channel(None);
        all.insert(name.clone(), receiver.clone());
        let mine = Mine {
            working: self.clone(),
            name: name.clone(),
            sender,
        };
        (Joined(receiver), Some(mine))
    }
}

impl Mine {
    /// Ends the work.
    pub(super) fn end(self, outcome: Outcome) {
        let sender = self.sender.clone();
        // Before the outcome is told: who comes after it begins anew.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        lock(&self.working.0).remove(&self.name);
    }
}

impl Joined {
    /// Waits for the outcome.
    pub(super) async fn outcome(mut self) -> Outcome {
        let ended = self.0.wait_for(Option::is_some).await;
        let outcome = ended.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| Err(NoCertificate::new("the work was broken off", None)))
    }
}

#[cfg(test)]
mod tests {
    use sekisho_certs::HostPattern;

    use super::*;

    #[tokio::test]
    async fn all_get_the_outcome_of_the_first() {
        let (working, name) = (Working::default(), name());
        let (first, mine) = working.begin(&name);
        let (second, none) = working.begin(&name);
        assert!(none.is_none() && working.join(&name).is_some());
        mine.unwrap().end(Err(NoCertificate::new("no", Some(7))));
        for joined in [first, second] {
            assert_eq!(joined.outcome().await.unwrap_err().next, Some(7));
        }
        assert!(working.join(&name).is_none());
    }

    #[tokio::test]
    async fn broken_off_work_is_told_and_begins_anew() {
        let (working, name) = (Working::default(), name());
        let (joined, mine) = working.begin(&name);
        drop(mine);
        assert!(joined.outcome().await.is_err());
        assert!(working.begin(&name).1.is_some());
    }

    fn name() -> LineageName {
        LineageName::from(&HostPattern::parse("a.example").unwrap())
    }
}
