//! How far this process has seen the log.

use std::sync::Mutex;

use super::LogPosition;

use crate::lock::lock;

/// The highest position of the log that this process has seen: in pages of the
/// feed, and by its own writes before they return. A cache that is not as far
/// must not answer.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Noted>);

/// Position that had been seen at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Position; none before the first contact with the log. Its mark may be of an older
    /// change: a write tells only its number.
    pub position: Option<LogPosition>,
    /// Grows each time that the log did not continue: positions of different epochs are
    /// never compared.
    pub epoch: u64,
}

impl Seen {
    /// Returns what has been seen until now.
    #[must_use]
    pub fn note(&self) -> Noted {
        *lock(&self.0)
    }

    /// Notes that a page up to `at` was handed on.
    pub fn raise(&self, at: LogPosition) {
        if let Some(position) = &mut lock(&self.0).position
            && position.log == at.log
            && position.number < at.number
        {
            *position = at;
        }
    }

    /// Notes the number of a write of this process. Called before the write
    /// returns: a read behind it then never gets an older copy.
    pub fn wrote(&self, number: u64) {
        if let Some(position) = &mut lock(&self.0).position {
            position.number = position.number.max(number);
        }
    }

    /// Starts over: the log is read anew from `at`, and no earlier position
    /// counts.
    pub fn restart(&self, at: LogPosition) {
        let mut noted = lock(&self.0);
        noted.epoch += u64::from(noted.position.is_some());
        noted.position = Some(at);
    }
}
