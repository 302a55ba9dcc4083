//! The recent changes of a catalog's log, as every cache remembers them: a load
//! that a change overtook is told from one that is still right.

use std::collections::VecDeque;

use crate::credential::CredentialId;
use crate::host::{HostName, HostPattern};
use crate::store::{Change, LogId, Subject};

/// The last changes that were applied. A load asks it whether what it read
/// has changed since it began.
#[derive(Debug, Default)]
pub struct Recent {
    /// The log that is followed; none before the first contact.
    pub log: Option<LogId>,
    /// The number of the last applied change.
    pub number: u64,
    /// Grows when everything remembered must be read again.
    pub epoch: u64,
    /// The number of the last change that is no longer remembered.
    dropped: u64,
    changes: VecDeque<(u64, Subject)>,
}

/// When a load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The number of the last applied change at that time.
    pub number: u64,
    /// The epoch at that time.
    pub epoch: u64,
}

/// What a load did read, to be held against the changes.
pub struct Reading<'a> {
    /// The name that was asked for.
    pub name: &'a HostName,
    /// The pattern of the record that answered, if one did.
    pub pattern: Option<&'a HostPattern>,
    /// The credentials that the record refers to.
    pub credentials: &'a [CredentialId],
}

/// What happened to it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meanwhile {
    /// Nothing that matters.
    Nothing,
    /// It stands, but an exact record below the wildcard changed.
    Shadowed,
    /// It must be read again.
    Overtaken,
}

impl Recent {
    /// Where a load begins that starts now.
    #[must_use]
    pub fn begun(&self) -> Begun {
        Begun {
            number: self.number,
            epoch: self.epoch,
        }
    }

    /// Remembers one change, the next of the log.
    pub fn push(&mut self, change: &Change) {
        self.number = change.number;
        if !matches!(change.subject, Subject::Document { .. }) {
            if self.changes.len() == KEPT
                && let Some((number, _)) = self.changes.pop_front()
            {
                self.dropped = number;
            }
            self.changes
                .push_back((change.number, change.subject.clone()));
        }
    }

    /// Forgets the log and starts a new epoch behind `number`.
    pub fn restart(&mut self, log: LogId, number: u64) {
        *self = Self {
            log: Some(log),
            number,
            epoch: self.epoch + 1,
            dropped: number,
            changes: VecDeque::new(),
        };
    }

    /// Knows no log any more, and starts a new epoch.
    pub fn forget(&mut self) {
        *self = Self {
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    /// Judges what was read since `begun` against the changes since then.
    #[must_use]
    pub fn meanwhile(&self, begun: Begun, reading: &Reading<'_>) -> Meanwhile {
        if begun == self.begun() {
            return Meanwhile::Nothing;
        }
        if begun.epoch != self.epoch || begun.number < self.dropped {
            return Meanwhile::Overtaken;
        }
        let since = self
            .changes
            .iter()
            .rev()
            .take_while(|(number, _)| *number > begun.number);
        let seen = since.map(|(_, subject)| reading.against(subject));
        seen.max().unwrap_or(Meanwhile::Nothing)
    }
}

impl Reading<'_> {
    fn against(&self, subject: &Subject) -> Meanwhile {
        match subject {
            Subject::Host(pattern) if pattern.covers(self.name) => Meanwhile::Overtaken,
            Subject::Host(pattern) => match self.pattern.and_then(HostPattern::wildcard_parent) {
                Some(parent) if pattern.parent() == Some(parent) => Meanwhile::Shadowed,
                _ => Meanwhile::Nothing,
            },
            Subject::Credential(id) if self.credentials.contains(id) => Meanwhile::Overtaken,
            Subject::Credential(_) | Subject::Document { .. } => Meanwhile::Nothing,
        }
    }
}

/// A bulk import writes some 20,000 changes a second and a load takes under a
/// millisecond; a load that outlives this many changes just runs again.
const KEPT: usize = 8192;
