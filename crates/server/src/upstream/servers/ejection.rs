//! Ejection of a server: failures in a row, pauses, and trials.
//!
//! Five failures in a row eject a server: requests go to the site's other servers.
//! The first pause is 5 s. When a pause is over, one request at a time tries the
//! server. If that fails, the next pause is twice as long, up to 2 min; one answer
//! ends the ejection.
//!
//! Failures count for one backend: an owner learns for itself that a server is gone, and
//! no settings or application of a tenant eject a server for another one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sekisho_certs::metrics::InGauge;

use sekisho_certs::lock;

/// Count of failures in a row, and the pause that follows. Times are in milliseconds
/// since the start of [`Servers`](crate::upstream::Servers), which no request precedes.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Ejection {
    /// True since the first failure until the next success: most requests take no
    /// lock. Relaxed: a success that misses a failure noted meanwhile leaves one
    /// failure too many in the row.
    troubled: AtomicBool,
    /// Time until which no request is sent; 0 unless ejected. Relaxed: a request
    /// that reads an old value goes to a server that another could have served
    /// better, as one that came a moment earlier did.
    until: AtomicU64,
    row: Mutex<Row>,
}

/// State of a server for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::upstream) enum Standing {
    /// Takes requests.
    Healthy,
    /// Ejected, and its pause is over: the next request tries it.
    Due,
    /// Ejected until this time.
    Ejected(u64),
}

/// Permit to try an ejected server: the time until which it lasts, 0 if none was needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::upstream) struct Trial(u64);

/// Failures since the last success.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    /// Pauses since the last success.
    pauses: u32,
    /// End of the last pause.
    pause_ends: u64,
    /// Counts an ejected server in the metrics.
    ejected: Option<InGauge>,
}

impl Ejection {
    pub(in crate::upstream) fn standing(&self, now: u64) -> Standing {
        match self.until.load(Ordering::Relaxed) {
            0 => Standing::Healthy,
            until if until <= now => Standing::Due,
            until => Standing::Ejected(until),
        }
    }

    /// Claims the use of a server: for an ejected one, the permit to try it once
    /// its pause is over. If the claimer neither notes an outcome nor gives the permit back,
    /// the next one may try after 5 s.
    pub(in crate::upstream) fn claim(&self, now: u64) -> Option<Trial> {
        let until = self.until.load(Ordering::Relaxed);
        let trial = match until {
            0 => return Some(Trial::default()),
            until if until > now => return None,
            _ => Trial(now + TRIAL),
        };
        let (own, relaxed) = (trial.0, Ordering::Relaxed);
        let claimed = self.until.compare_exchange(until, own, relaxed, relaxed);
        claimed.is_ok().then_some(trial)
    }

    /// Notes a success; returns true if it ends an ejection.
    pub(in crate::upstream) fn succeeded(&self) -> bool {
        if !self.troubled.load(Ordering::Relaxed) {
            return false;
        }
        let mut row = lock(&self.row);
        let was_ejected = row.ejected.is_some();
        *row = Row::default();
        self.until.store(0, Ordering::Relaxed);
        self.troubled.store(false, Ordering::Relaxed);
        was_ejected
    }

    /// Gives the permit to try the server to the next request. A claimer that
    /// learned nothing of the server calls it. Any outcome that was noted stands.
    pub(in crate::upstream) fn give_back(&self, trial: Trial, now: impl FnOnce() -> u64) {
        if trial != Trial::default() {
            let (own, now, relaxed) = (trial.0, now(), Ordering::Relaxed);
            let _ = self.until.compare_exchange(own, now, relaxed, relaxed);
        }
    }

    /// Notes a failure. Returns the pause if it ejects the server. `jitter` is any
    /// number; `count` counts an ejected server.
    pub(in crate::upstream) fn failed(
        &self,
        now: u64,
        jitter: u64,
        count: impl FnOnce() -> InGauge,
    ) -> Option<Duration> {
        let mut row = lock(&self.row);
        let pause = row.failed(now, jitter);
        self.troubled.store(true, Ordering::Relaxed);
        if pause.is_some() {
            self.until.store(row.pause_ends, Ordering::Relaxed);
            row.ejected.get_or_insert_with(count);
        }
        pause.map(Duration::from_millis)
    }
}

impl Row {
    /// Returns the milliseconds of the pause that begins, if one does.
    fn failed(&mut self, now: u64, jitter: u64) -> Option<u64> {
        self.failures = self.failures.saturating_add(1);
        // Requests that were in flight when the pause began fail in it.
        if self.failures < IN_A_ROW || now < self.pause_ends {
            return None;
        }
        let pause = pause(self.pauses, jitter);
        self.pauses = self.pauses.saturating_add(1);
        self.pause_ends = now + pause;
        Some(pause)
    }
}

/// Returns the milliseconds of the pause after this many: 5 s, doubled each time, at
/// most 2 min, a quarter more or less. Servers that failed together are not tried
/// together.
fn pause(before: u32, jitter: u64) -> u64 {
    let pause = LONGEST_PAUSE.min(FIRST_PAUSE << before.min(16));
    pause - pause / 4 + jitter % (pause / 2 + 1)
}

/// Failures in a row that eject a server.
const IN_A_ROW: u32 = 5;
const FIRST_PAUSE: u64 = 5_000;
const LONGEST_PAUSE: u64 = 120_000;
/// Longer than most answers take.
const TRIAL: u64 = 5_000;

#[cfg(test)]
mod tests {
    use sekisho_certs::metrics::Gauge;

    use super::*;

    /// Jitter that leaves pauses as they are: half of the range.
    const NONE: u64 = 1_250;

    fn fail(ejection: &Ejection, now: u64) -> Option<Duration> {
        ejection.failed(now, NONE, || InGauge::new(&Gauge::default()))
    }

    fn ejected(at: u64) -> Ejection {
        let ejection = Ejection::default();
        for _ in 1..IN_A_ROW {
            assert_eq!(fail(&ejection, at), None);
        }
        assert_eq!(fail(&ejection, at), Some(Duration::from_secs(5)));
        ejection
    }

    #[test]
    fn failures_in_a_row_eject() {
        let ejection = ejected(1_000);
        assert_eq!(ejection.standing(5_999), Standing::Ejected(6_000));
        assert_eq!(ejection.standing(6_000), Standing::Due);
    }

    #[test]
    fn a_success_between_ends_the_row() {
        let ejection = Ejection::default();
        for _ in 0..3 {
            for _ in 1..IN_A_ROW {
                assert_eq!(fail(&ejection, 1), None);
            }
            assert!(!ejection.succeeded());
        }
        assert_eq!(ejection.standing(1), Standing::Healthy);
    }

    #[test]
    fn one_request_at_a_time_tries_it_again() {
        let ejection = ejected(1_000);
        assert_eq!(ejection.claim(5_999), None);
        assert!(ejection.claim(6_000).is_some());
        assert_eq!(ejection.claim(6_000), None);
        // The claimer was dropped without an outcome.
        assert_eq!(ejection.claim(10_999), None);
        assert!(ejection.claim(11_000).is_some());
    }

    #[test]
    fn pauses_grow_to_their_bound_until_a_success() {
        let ejection = ejected(1_000);
        let mut now = 6_000;
        for seconds in [10, 20, 40, 80, 120, 120] {
            let pause = Duration::from_secs(seconds);
            assert!(ejection.claim(now).is_some());
            let failed = ejection.failed(now, half(pause), || unreachable!("counted already"));
            assert_eq!(failed, Some(pause));
            now += seconds * 1_000;
        }
        assert!(ejection.succeeded());
        assert_eq!(ejection.standing(now), Standing::Healthy);
        for _ in 1..IN_A_ROW {
            assert_eq!(fail(&ejection, now), None);
        }
        assert_eq!(fail(&ejection, now), Some(Duration::from_secs(5)));
    }

    fn half(pause: Duration) -> u64 {
        u64::try_from(pause.as_millis()).unwrap() / 4
    }

    #[test]
    fn stragglers_prolong_no_pause() {
        let ejection = ejected(1_000);
        for now in 1_000..1_100 {
            assert_eq!(fail(&ejection, now), None);
        }
        assert_eq!(ejection.standing(5_999), Standing::Ejected(6_000));
    }

    #[test]
    fn jitter_moves_a_pause_by_a_quarter() {
        let pauses = (0..10_000).map(|jitter| pause(0, jitter * 7));
        let (least, most) = (pauses.clone().min(), pauses.max());
        assert_eq!((least, most), (Some(3_750), Some(6_250)));
    }

    #[test]
    fn a_trial_without_an_outcome_is_given_back() {
        let ejection = ejected(1_000);
        let trial = ejection.claim(6_000).unwrap();
        // Requests that claimed nothing give nothing back.
        ejection.give_back(Trial::default(), || 6_001);
        assert_eq!(ejection.claim(6_001), None);
        ejection.give_back(trial, || 6_001);
        let next = ejection.claim(6_001).unwrap();
        // Nor does one whose time is over.
        ejection.give_back(trial, || 6_002);
        assert_eq!(ejection.claim(6_002), None);
        assert_eq!(
            fail(&ejection, 6_002).map(|pause| pause > Duration::from_secs(5)),
            Some(true)
        );
        ejection.give_back(next, || 6_003);
        assert_eq!(ejection.claim(6_003), None);
    }

    #[test]
    fn the_gauge_counts_a_server_while_it_is_ejected() {
        let gauge = Gauge::default();
        let ejection = Ejection::default();
        for _ in 0..IN_A_ROW {
            ejection.failed(1, NONE, || InGauge::new(&gauge));
        }
        assert_eq!(gauge.get(), 1);
        assert!(ejection.succeeded());
        assert_eq!(gauge.get(), 0);
        for _ in 0..IN_A_ROW {
            ejection.failed(1, NONE, || InGauge::new(&gauge));
        }
        drop(ejection);
        assert_eq!(gauge.get(), 0);
    }
}
