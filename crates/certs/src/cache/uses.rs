//! History of a record's use, from which the hottest ones are told.

use std::sync::atomic::{AtomicU64, Ordering};

/// History of use over the last 32 ticks: the number of the tick of the last use in the upper
/// half, a bit for each tick in the lower one, the newest lowest.
///
/// A hit reads it, and writes only in a tick without an earlier one: a record that is used a
/// thousand times a second writes its cache line once in two seconds. Relaxed suffices, since
/// it guards no other data; two writes at once may lose a bit.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU64);

/// Heat of a record: the number of ticks with a use, then how late they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Heat {
    ticks: u32,
    /// The history with the newest tick highest.
    latest: u32,
}

impl Uses {
    /// Notes a use at `now`, microseconds of the lookup's time.
    pub(crate) fn note(&self, now: u64) {
        let before = self.0.load(Ordering::Relaxed);
        let tick = tick(now);
        // A reading of the clock that a poll keeps may be older than another thread's.
        if last(before) < tick {
            let after = pack(tick, history(before, tick) | 1);
            self.0.store(after, Ordering::Relaxed);
        }
    }

    /// Continues the history of the record that this one replaces.
    pub(super) fn take_over(&self, old: &Self) {
        let (old, own) = (
            old.0.load(Ordering::Relaxed),
            self.0.load(Ordering::Relaxed),
        );
        let tick = last(old).max(last(own));
        let both = history(old, tick) | history(own, tick);
        self.0.store(pack(tick, both), Ordering::Relaxed);
    }

    pub(super) fn heat(&self, now: u64) -> Heat {
        let history = history(self.0.load(Ordering::Relaxed), tick(now));
        Heat {
            ticks: history.count_ones(),
            latest: history.reverse_bits(),
        }
    }
}

/// Returns the number of a tick, from 1: 0 stands for no use.
fn tick(now: u64) -> u64 {
    (now >> TICK_BITS) + 1
}

fn last(packed: u64) -> u64 {
    packed >> 32
}

/// Returns the history as it is in a tick that is not before the last use.
fn history(packed: u64, tick: u64) -> u32 {
    let history = packed & u64::from(u32::MAX);
    let ago = tick.saturating_sub(last(packed)).min(32);
    // The upper half is cut off.
    (history << ago) as u32
}

fn pack(tick: u64, history: u32) -> u64 {
    tick << 32 | u64::from(history)
}

/// Two seconds in microseconds, nearly: the history covers 67 s. It tells records that are
/// used every second from those that are used once a minute.
const TICK_BITS: u32 = 21;

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 1 << TICK_BITS;

    #[test]
    fn what_is_used_often_and_late_is_hotter() {
        let often = Uses::default();
        let once = Uses::default();
        let early = Uses::default();
        let never = Uses::default();
        for at in 0..10 {
            often.note(at * TICK);
            often.note(at * TICK + 5);
        }
        early.note(0);
        once.note(9 * TICK);
        let heat = |uses: &Uses, at: u64| uses.heat(at * TICK);
        assert_eq!(heat(&often, 9).ticks, 10);
        assert!(heat(&often, 9) > heat(&once, 9));
        assert!(heat(&once, 9) > heat(&early, 9));
        assert!(heat(&early, 9) > heat(&never, 9));
        // Uses fade.
        assert_eq!(heat(&often, 36).ticks, 5);
        assert_eq!(heat(&often, 1000), heat(&never, 1000));
        often.note(1000 * TICK);
        assert_eq!(heat(&often, 1000).ticks, 1);
    }

    #[test]
    fn a_reading_of_before_changes_nothing() {
        let uses = Uses::default();
        uses.note(5 * TICK);
        let before = uses.heat(5 * TICK);
        uses.note(4 * TICK);
        assert_eq!(uses.heat(5 * TICK), before);
        assert_eq!(uses.heat(4 * TICK), before);
    }

    #[test]
    fn a_record_that_is_read_again_keeps_its_heat() {
        let (old, new) = (Uses::default(), Uses::default());
        for at in 0..4 {
            old.note(at * TICK);
        }
        new.note(5 * TICK);
        new.take_over(&old);
        assert_eq!(new.heat(5 * TICK).ticks, 5);
        let heat = new.heat(5 * TICK);
        new.take_over(&Uses::default());
        assert_eq!(new.heat(5 * TICK), heat);
    }
}
