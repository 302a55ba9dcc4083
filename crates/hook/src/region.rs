//! Region of `tls:cached`: what scripts made, by keys of theirs.
//!
//! Two parts, both bounded in bytes and scan-resistant (S3-FIFO): choices, and a
//! small one of notes, which are absences and failures. Neither is the cache of
//! hosts, and no host is ever looked up here: a key can't shadow one. A choice stays
//! past its limit until it is replaced or evicted, to be served if the function
//! fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;
use futures_util::future::{FutureExt, Shared};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sekisho_certs::cache::{MAX_SHARDS, bounded};
use sekisho_certs::lock;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::choice::Choice;

/// Choices and notes by key, and the loads in flight.
pub(crate) struct Region<M> {
    choices: Cache<Arc<str>, Arc<Kept<M>>, ByWeight, RandomState>,
    notes: Cache<Arc<str>, Note, ByWeight, RandomState>,
    /// Loads in flight by key (singleflight).
    loads: Mutex<HashMap<Arc<str>, Call<M>, RandomState>>,
}

/// Choice under a key.
pub(crate) struct Kept<M> {
    pub(crate) choice: Choice<M>,
    pub(crate) fresh_until: Instant,
    pub(crate) weight: u64,
}

/// Absence or failure under a key.
#[derive(Clone)]
struct Note {
    /// Text of the failure; none for an absence.
    failure: Option<Arc<str>>,
    /// True while the function still runs: without an older choice, its end is awaited.
    is_late: bool,
    until: Instant,
}

/// Answer for a key.
#[derive(Clone)]
pub(crate) enum Known<M> {
    /// A choice within its limit.
    Fresh(Arc<Kept<M>>),
    /// The function chose nothing.
    Absent,
    /// The function failed; here is what was there before, to be served until then.
    Stale(Arc<Kept<M>>, Instant),
    /// The function failed, and nothing was there before.
    Failed(Arc<str>),
}

/// Load in flight, shared by all who wait for it.
pub(crate) type Call<M> = Shared<Receiver<Known<M>>>;

/// Result of a look at a key.
pub(crate) enum Looked<M> {
    Known(Known<M>),
    /// A load is in flight: join it.
    InFlight(Call<M>),
    /// Nothing is known: the caller runs the load and gives it to `end`.
    Begin(Sender<Known<M>>, Call<M>),
}

/// End of a load, for the notes.
pub(crate) enum Ended<M> {
    Chosen(Kept<M>),
    Absent { until: Instant },
    Failed { why: Arc<str>, until: Instant },
}

impl<M: Clone> Region<M> {
    /// Divides `memory` bytes: a sixteenth is for notes.
    pub(crate) fn new(memory: usize) -> Self {
        let notes = memory / 16;
        Self {
            choices: bounded(ByWeight, memory - notes, USUAL_CHOICE, MAX_SHARDS),
            notes: bounded(ByWeight, notes, USUAL_NOTE, MAX_SHARDS),
            loads: Mutex::default(),
        }
    }

    /// Returns the answer for a key, else the load in flight, if there is one.
    pub(crate) fn find(&self, key: &Arc<str>, now: Instant) -> Option<Looked<M>> {
        if let Some(known) = self.known(key, now) {
            return Some(Looked::Known(known));
        }
        lock(&self.loads).get(key).cloned().map(Looked::InFlight)
    }

    /// Returns the choice under a key, also past its limit.
    pub(crate) fn old(&self, key: &Arc<str>) -> Option<Arc<Kept<M>>> {
        self.choices.get(key)
    }

    /// Does what [`Self::find`] does, and begins a load if nothing is there.
    pub(crate) fn find_or_begin(&self, key: &Arc<str>, now: Instant) -> Looked<M> {
        let mut loads = lock(&self.loads);
        if let Some(call) = loads.get(key) {
            return Looked::InFlight(call.clone());
        }
        // A load that ended before has left its answer before its place here.
        if let Some(known) = self.known(key, now) {
            return Looked::Known(known);
        }
        let (sender, call) = channel();
        let call = call.shared();
        loads.insert(Arc::clone(key), call.clone());
        Looked::Begin(sender, call)
    }

    /// Ends a load: keeps its answer, then lets the next load of the key begin.
    /// Returns the answer for those who waited.
    pub(crate) fn end(&self, key: &Arc<str>, ended: Ended<M>) -> Known<M> {
        // In this order, and under the lock: a later note would hide the answer.
        let mut loads = lock(&self.loads);
        let known = self.keep(key, ended);
        loads.remove(key);
        known
    }

    /// Notes that a load is late: until then, `old` is served without a wait. The load goes
    /// on, and its end replaces the note.
    pub(crate) fn late(&self, key: &Arc<str>, old: Arc<Kept<M>>, until: Instant) -> Known<M> {
        // Under the lock, no end of the load is overwritten.
        let loads = lock(&self.loads);
        if loads.contains_key(key) {
            let why = "the function has not ended yet".into();
            self.note(key, Some(why), true, until);
        }
        Known::Stale(old, until)
    }

    /// Forgets a load that ended without an answer.
    pub(crate) fn abandon(&self, key: &Arc<str>) {
        lock(&self.loads).remove(key);
    }

    /// Returns the number of choices.
    pub(crate) fn entries(&self) -> u64 {
        self.choices.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.choices.weight() + self.notes.weight()
    }

    /// Returns the answer for a key.
    pub(crate) fn known(&self, key: &Arc<str>, now: Instant) -> Option<Known<M>> {
        let kept = self.choices.get(key);
        if let Some(kept) = &kept
            && now < kept.fresh_until
        {
            return Some(Known::Fresh(Arc::clone(kept)));
        }
        let note = self.notes.get(key).filter(|note| now < note.until)?;
        Some(match (note.failure, kept) {
            (None, _) => Known::Absent,
            (Some(_), Some(kept)) => Known::Stale(kept, note.until),
            // The choice was evicted since.
            (Some(_), None) if note.is_late => return None,
            (Some(why), None) => Known::Failed(why),
        })
    }

    fn keep(&self, key: &Arc<str>, ended: Ended<M>) -> Known<M> {
        match ended {
            Ended::Chosen(kept) => {
                let kept = Arc::new(kept);
                self.notes.remove(key);
                self.choices.insert(Arc::clone(key), Arc::clone(&kept));
                Known::Fresh(kept)
            }
            Ended::Absent { until } => {
                self.note(key, None, false, until);
                self.choices.remove(key);
                Known::Absent
            }
            Ended::Failed { why, until } => {
                self.note(key, Some(Arc::clone(&why)), false, until);
                match self.choices.get(key) {
                    Some(kept) => Known::Stale(kept, until),
                    None => Known::Failed(why),
                }
            }
        }
    }

    fn note(&self, key: &Arc<str>, failure: Option<Arc<str>>, is_late: bool, until: Instant) {
        let note = Note {
            failure,
            is_late,
            until,
        };
        self.notes.insert(Arc::clone(key), note);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ByWeight;

impl<M> Weighter<Arc<str>, Arc<Kept<M>>> for ByWeight {
    fn weight(&self, key: &Arc<str>, kept: &Arc<Kept<M>>) -> u64 {
        (PER_CHOICE + key.len()) as u64 + kept.weight
    }
}

impl Weighter<Arc<str>, Note> for ByWeight {
    fn weight(&self, key: &Arc<str>, note: &Note) -> u64 {
        (PER_NOTE + key.len() + note.failure.as_ref().map_or(0, |why| why.len())) as u64
    }
}

const USUAL_CHOICE: usize = 4096;
const USUAL_NOTE: usize = PER_NOTE + 24;
/// Bytes of an entry without its key and certificate.
const PER_CHOICE: usize = 250;
const PER_NOTE: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    /// A note of a load that is late must not refuse once its choice is gone.
    #[test]
    fn a_late_load_without_an_older_choice_is_awaited() {
        let region = Region::<()>::new(1 << 20);
        let (key, now) = (Arc::from("a"), Instant::now());
        let until = now + std::time::Duration::from_secs(1);
        assert!(matches!(region.find_or_begin(&key, now), Looked::Begin(..)));
        let old = Arc::new(Kept {
            choice: Choice::Default,
            fresh_until: now,
            weight: 0,
        });
        region.choices.insert(Arc::clone(&key), Arc::clone(&old));
        region.late(&key, old, until);
        let found = region.find(&key, now);
        assert!(matches!(found, Some(Looked::Known(Known::Stale(..)))));
        region.choices.remove(&key);
        let found = region.find(&key, now);
        assert!(matches!(found, Some(Looked::InFlight(_))));
        let ended = Ended::Failed {
            why: "no".into(),
            until,
        };
        region.end(&key, ended);
        let found = region.find(&key, now);
        assert!(matches!(found, Some(Looked::Known(Known::Failed(_)))));
    }
}
