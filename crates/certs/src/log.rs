//! The recent changes of a catalog's log, as every cache remembers them: a load
//! that a change overtook is told from one that is still right.

mod seen;

use std::collections::VecDeque;

pub use self::seen::{Noted, Seen};
use crate::credential::CredentialId;
use crate::host::{HostName, HostPattern};
use crate::store::{Change, ChangePage, LogId, Position, Subject};

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

impl ChangePage {
    /// Whether this page, read behind `at`, has every change that follows `at`.
    #[must_use]
    pub fn continues(&self, at: Position) -> bool {
        let is_next = |(change, number): (&Change, u64)| change.number == number;
        self.log == at.log && !self.gap && self.changes.iter().zip(at.number + 1..).all(is_next)
    }

    /// Whether the log ended before a position of it that was seen before this
    /// page was asked for: the catalog was set back.
    #[must_use]
    pub fn ends_before(&self, seen: Position) -> bool {
        self.log == seen.log && self.last < seen.number
    }

    /// The end of the log when this page was read.
    #[must_use]
    pub fn end(&self) -> Position {
        Position {
            log: self.log,
            number: self.last,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::What;

    const AT: Position = Position {
        log: LogId([7; 16]),
        number: 10,
    };

    fn page(numbers: &[u64]) -> ChangePage {
        let change = |number: &u64| Change {
            number: *number,
            subject: Subject::Credential(CredentialId::from_u64(1)),
            what: What::Put,
        };
        ChangePage {
            log: AT.log,
            last: 20,
            gap: false,
            changes: numbers.iter().map(change).collect(),
        }
    }

    #[test]
    fn a_page_continues_without_gap_and_hole_in_one_log() {
        for whole in [&[][..], &[11], &[11, 12, 13]] {
            assert!(page(whole).continues(AT), "{whole:?}");
        }
        for holed in [&[12][..], &[10, 11], &[11, 13], &[11, 12, 14], &[11, 11]] {
            assert!(!page(holed).continues(AT), "{holed:?}");
        }
        let (mut gap, mut other) = (page(&[11]), page(&[11]));
        gap.gap = true;
        other.log = LogId([8; 16]);
        assert!(!gap.continues(AT) && !other.continues(AT));
    }

    #[test]
    fn a_log_set_back_ends_before_what_was_seen() {
        let seen = |number| Position { number, ..AT };
        assert!(page(&[]).ends_before(seen(21)));
        assert!(!page(&[]).ends_before(seen(20)));
        let log = LogId([8; 16]);
        assert!(!page(&[]).ends_before(Position { log, number: 21 }));
    }
}
