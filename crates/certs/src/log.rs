//! Recent changes of a catalog's log, as the lookup and the disk cache's writer
//! remember them. They tell a load that a change overtook from one that is still
//! right. Redis remembers changed subjects itself.

use std::collections::VecDeque;

use crate::credential::CredentialId;
use crate::host::{HostName, HostPattern};
use crate::store::{Change, ChangePage, LogPosition, Subject};

/// Last changes that were applied. A load asks whether what it read has changed
/// since it began.
#[derive(Debug, Default)]
pub struct Recent {
    /// The number of the last applied change.
    pub number: u64,
    /// Grows when everything remembered must be read again.
    pub epoch: u64,
    /// The number of the last change that is no longer remembered.
    dropped: u64,
    changes: VecDeque<(u64, Subject)>,
}

/// Moment at which a load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The number of the last applied change at that time.
    pub number: u64,
    /// The epoch at that time.
    pub epoch: u64,
}

/// Subjects of one load, to be compared with the changes since it began.
pub struct LoadSubjects<'a> {
    /// The name that was asked for.
    pub name: &'a HostName,
    /// The pattern of the record that answered, if one did.
    pub pattern: Option<&'a HostPattern>,
    /// The credentials that the record refers to.
    pub credentials: &'a [CredentialId],
}

/// Effect of the changes since a load began on its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meanwhile {
    /// No change concerns the result.
    Nothing,
    /// The result stands, but an exact record below the wildcard changed.
    Shadowed,
    /// The name must be read again.
    Overtaken,
}

impl Recent {
    /// Returns the moment at which a load begins that starts now.
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
        if !matches!(change.subject, Subject::Document(_)) {
            if self.changes.len() == MAX_REMEMBERED
                && let Some((number, _)) = self.changes.pop_front()
            {
                self.dropped = number;
            }
            self.changes
                .push_back((change.number, change.subject.clone()));
        }
    }

    /// Forgets the log and starts a new epoch behind `position`.
    pub fn restart(&mut self, position: LogPosition) {
        *self = Self {
            number: position.number,
            epoch: self.epoch + 1,
            dropped: position.number,
            changes: VecDeque::new(),
        };
    }

    /// Judges what was read since `begun` against the changes since then.
    #[must_use]
    pub fn meanwhile(&self, begun: Begun, subjects: &LoadSubjects<'_>) -> Meanwhile {
        if begun == self.begun() {
            return Meanwhile::Nothing;
        }
        if begun.epoch != self.epoch || begun.number < self.dropped {
            return Meanwhile::Overtaken;
        }
        let since = self.changes.iter().rev();
        let since = since.take_while(|(number, _)| *number > begun.number);
        let seen = since.map(|(_, subject)| subjects.effect_of(subject));
        seen.max().unwrap_or(Meanwhile::Nothing)
    }
}

impl ChangePage {
    /// Returns the position of a reader behind this page, which was read behind
    /// `at.number`. None if the page does not continue there: another log,
    /// changes missing, or another history than the reader has seen. The reader
    /// then trusts nothing that it remembers.
    #[must_use]
    pub fn continued(&self, at: LogPosition) -> Option<LogPosition> {
        let same_history = at.number == 0 || self.mark_before == Some(at.mark);
        let is_next = |(change, number): (&Change, u64)| change.number == number;
        let is_whole = match self.changes.as_slice() {
            // A hole at the end of the log.
            [] => self.last <= at.number,
            changes => changes.iter().zip(at.number + 1..).all(is_next),
        };
        if self.gap || self.log != at.log || !same_history || !is_whole {
            return None;
        }
        let Some(last) = self.changes.last() else {
            return Some(at);
        };
        Some(LogPosition {
            log: at.log,
            number: last.number,
            mark: self.mark_last?,
        })
    }

    /// Tells whether the log ended before a position of it that was seen before this
    /// page was asked for: the catalog was set back.
    #[must_use]
    pub fn ends_before(&self, seen: LogPosition) -> bool {
        self.log == seen.log && self.last < seen.number
    }
}

impl LoadSubjects<'_> {
    fn effect_of(&self, subject: &Subject) -> Meanwhile {
        match subject {
            Subject::Host(pattern) if pattern.covers(self.name) => Meanwhile::Overtaken,
            Subject::Host(pattern) => match self.pattern.and_then(HostPattern::wildcard_parent) {
                Some(parent) if pattern.parent() == Some(parent) => Meanwhile::Shadowed,
                _ => Meanwhile::Nothing,
            },
            Subject::Credential(id) if self.credentials.contains(id) => Meanwhile::Overtaken,
            Subject::Credential(_) | Subject::Document(_) => Meanwhile::Nothing,
        }
    }
}

/// A bulk import writes some 20,000 changes a second and a load takes under a
/// millisecond; a load that outlives this many changes just runs again.
const MAX_REMEMBERED: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LogId, What};

    const AT: LogPosition = LogPosition {
        log: LogId([7; 16]),
        number: 10,
        mark: 100,
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
            mark_before: Some(AT.mark),
            mark_last: numbers.last().map(|number| number * 10),
            changes: numbers.iter().map(change).collect(),
        }
    }

    #[test]
    fn a_page_continues_without_gap_and_hole_in_one_log() {
        for whole in [&[11][..], &[11, 12, 13]] {
            let number = *whole.last().unwrap();
            let reached = LogPosition {
                number,
                mark: number * 10,
                ..AT
            };
            assert_eq!(page(whole).continued(AT), Some(reached), "{whole:?}");
        }
        let end = LogPosition { number: 20, ..AT };
        assert_eq!(page(&[]).continued(end), Some(end));
        assert_eq!(page(&[]).continued(AT), None, "a hole at the end");
        for holed in [&[12][..], &[10, 11], &[11, 13], &[11, 12, 14], &[11, 11]] {
            assert_eq!(page(holed).continued(AT), None, "{holed:?}");
        }
        let (mut gap, mut other, mut restored) = (page(&[11]), page(&[11]), page(&[11]));
        gap.gap = true;
        other.log = LogId([8; 16]);
        restored.mark_before = Some(AT.mark + 1);
        for page in [gap, other, restored] {
            assert_eq!(page.continued(AT), None, "{page:?}");
        }
    }

    #[test]
    fn a_log_set_back_ends_before_what_was_seen() {
        let seen = |number| LogPosition { number, ..AT };
        assert!(page(&[]).ends_before(seen(21)));
        assert!(!page(&[]).ends_before(seen(20)));
        let log = LogId([8; 16]);
        assert!(!page(&[]).ends_before(LogPosition { log, ..seen(21) }));
    }
}
