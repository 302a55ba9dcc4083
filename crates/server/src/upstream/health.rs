//! Passive health of a server: ejection after failures in a row.
//!
//! Five failures in a row eject a server: requests go to the site's other servers.
//! The first pause is 5 s. When a pause is over, one request at a time tries the
//! server. If that fails, the next pause is twice as long, up to 2 min; one success
//! ends the ejection.
//!
//! An address that many tenants' sites name is one server here. A failure of the
//! network counts against it whoever saw it. An answer of 502, 503 or 504, and no
//! answer at all, may be the fault of one tenant's application alone. While several
//! tenants use a server, such failures therefore count only if they are of another
//! tenant than the failure before.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sekisho_certs::metrics::InGauge;

/// Health of one server. Times are in milliseconds since the start of
/// [`super::Servers`], which no request precedes.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// True since the first failure until the next success: most requests take no
    /// lock. Relaxed: a success that misses a failure noted meanwhile leaves one
    /// failure too many in the row.
    troubled: AtomicBool,
    /// Time until which no request is sent; 0 unless ejected. Relaxed: a request
    /// that reads an old value goes to a server that another could have served
    /// better, as one that came a moment earlier did.
    until: AtomicU64,
    users: Users,
    row: Mutex<Row>,
}

/// State of a server for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Takes requests.
    Healthy,
    /// Ejected, and its pause is over: the next request tries it.
    Due,
    /// Ejected until this time.
    Ejected(u64),
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection came about.
    Unreachable,
    /// No answer, or one that says that the application failed.
    Application,
}

/// Failures since the last success.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    /// Pauses since the last success.
    pauses: u32,
    /// End of the last pause.
    pause_ends: u64,
    /// Tenant of the last failure that counted.
    tenant: u64,
    /// Counts an ejected server in the metrics.
    ejected: Option<InGauge>,
}

/// Tenants that use a server: none, one, or several.
#[derive(Debug, Default)]
struct Users {
    last: AtomicU64,
    /// Time until which the server counts as used by several.
    several_until: AtomicU64,
}

impl Health {
    /// Notes a request of a tenant.
    pub(super) fn used_by(&self, tenant: u64, now: u64) {
        let last = self.users.last.load(Ordering::Relaxed);
        if last == tenant {
            return;
        }
        self.users.last.store(tenant, Ordering::Relaxed);
        if last != 0 {
            let until = now + SEVERAL;
            self.users.several_until.store(until, Ordering::Relaxed);
        }
    }

    pub(super) fn standing(&self, now: u64) -> Standing {
        match self.until.load(Ordering::Relaxed) {
            0 => Standing::Healthy,
            until if until <= now => Standing::Due,
            until => Standing::Ejected(until),
        }
    }

    /// Claims the right to try a server that is [`Standing::Due`]. If the claimer
    /// never notes an outcome, the next one may try after 5 s.
    pub(super) fn claim(&self, now: u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        let next = now + TRIAL;
        (1..=now).contains(&until)
            && self
                .until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Notes a success; returns true if it ends an ejection.
    pub(super) fn succeeded(&self) -> bool {
        if !self.troubled.load(Ordering::Relaxed) {
            return false;
        }
        let mut row = self.lock();
        let was_ejected = row.ejected.is_some();
        *row = Row::default();
        self.until.store(0, Ordering::Relaxed);
        self.troubled.store(false, Ordering::Relaxed);
        was_ejected
    }

    /// Notes a failure that a tenant's request met. Returns the pause if it ejects
    /// the server. `jitter` is any number; `count` counts an ejected server.
    pub(super) fn failed(
        &self,
        failure: Failure,
        tenant: u64,
        now: u64,
        jitter: u64,
        count: impl FnOnce() -> InGauge,
    ) -> Option<Duration> {
        let is_shared = self.users.several_until.load(Ordering::Relaxed) > now;
        let mut row = self.lock();
        let pause = row.failed(failure, tenant, is_shared, now, jitter);
        self.troubled.store(true, Ordering::Relaxed);
        if pause.is_some() {
            self.until.store(row.pause_ends, Ordering::Relaxed);
            row.ejected.get_or_insert_with(count);
        }
        pause.map(Duration::from_millis)
    }

    fn lock(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// Returns the milliseconds of the pause that begins, if one does.
    fn failed(
        &mut self,
        failure: Failure,
        tenant: u64,
        is_shared: bool,
        now: u64,
        jitter: u64,
    ) -> Option<u64> {
        let is_same = self.failures > 0 && self.tenant == tenant;
        if failure == Failure::Application && is_shared && is_same {
            return None;
        }
        self.tenant = tenant;
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
/// How long a server counts as used by several tenants after their requests took
/// turns.
const SEVERAL: u64 = 60_000;

#[cfg(test)]
mod tests {
    use sekisho_certs::metrics::Gauge;

    use super::*;

    /// Jitter that leaves pauses as they are: half of the range.
    const NONE: u64 = 1_250;
    const ACME: u64 = 1;
    const OTHER: u64 = 2;

    fn fail(health: &Health, failure: Failure, tenant: u64, now: u64) -> Option<Duration> {
        health.failed(failure, tenant, now, NONE, || {
            InGauge::new(&Gauge::default())
        })
    }

    fn unreachable(health: &Health, now: u64) -> Option<Duration> {
        fail(health, Failure::Unreachable, ACME, now)
    }

    fn ejected(at: u64) -> Health {
        let health = Health::default();
        for _ in 1..IN_A_ROW {
            assert_eq!(unreachable(&health, at), None);
        }
        assert_eq!(unreachable(&health, at), Some(Duration::from_secs(5)));
        health
    }

    #[test]
    fn failures_in_a_row_eject() {
        let health = ejected(1_000);
        assert_eq!(health.standing(5_999), Standing::Ejected(6_000));
        assert_eq!(health.standing(6_000), Standing::Due);
    }

    #[test]
    fn a_success_between_ends_the_row() {
        let health = Health::default();
        for _ in 0..3 {
            for _ in 1..IN_A_ROW {
                assert_eq!(unreachable(&health, 1), None);
            }
            assert!(!health.succeeded());
        }
        assert_eq!(health.standing(1), Standing::Healthy);
    }

    #[test]
    fn one_request_at_a_time_tries_it_again() {
        let health = ejected(1_000);
        assert!(!health.claim(5_999));
        assert!(health.claim(6_000));
        assert!(!health.claim(6_000));
        // The claimer was dropped without an outcome.
        assert!(!health.claim(10_999));
        assert!(health.claim(11_000));
    }

    #[test]
    fn pauses_grow_to_their_bound_until_a_success() {
        let health = ejected(1_000);
        let mut now = 6_000;
        for seconds in [10, 20, 40, 80, 120, 120] {
            let pause = Duration::from_secs(seconds);
            assert!(health.claim(now));
            let failed = health.failed(Failure::Unreachable, ACME, now, half(pause), || {
                unreachable!("counted already")
            });
            assert_eq!(failed, Some(pause));
            now += seconds * 1_000;
        }
        assert!(health.succeeded());
        assert_eq!(health.standing(now), Standing::Healthy);
        for _ in 1..IN_A_ROW {
            assert_eq!(unreachable(&health, now), None);
        }
        assert_eq!(unreachable(&health, now), Some(Duration::from_secs(5)));
    }

    fn half(pause: Duration) -> u64 {
        u64::try_from(pause.as_millis()).unwrap() / 4
    }

    #[test]
    fn stragglers_prolong_no_pause() {
        let health = ejected(1_000);
        for now in 1_000..1_100 {
            assert_eq!(unreachable(&health, now), None);
        }
        assert_eq!(health.standing(5_999), Standing::Ejected(6_000));
    }

    #[test]
    fn jitter_moves_a_pause_by_a_quarter() {
        let pauses = (0..10_000).map(|jitter| pause(0, jitter * 7));
        let (least, most) = (pauses.clone().min(), pauses.max());
        assert_eq!((least, most), (Some(3_750), Some(6_250)));
    }

    #[test]
    fn one_tenant_alone_ejects_its_own_server() {
        let health = Health::default();
        health.used_by(ACME, 1);
        let failures = (0..IN_A_ROW).map(|_| fail(&health, Failure::Application, ACME, 1));
        assert_eq!(failures.flatten().count(), 1);
    }

    #[test]
    fn one_tenant_does_not_eject_what_others_use() {
        let health = Health::default();
        health.used_by(OTHER, 1);
        for now in 1..1_000 {
            health.used_by(ACME, now);
            assert_eq!(fail(&health, Failure::Application, ACME, now), None);
        }
        // The network's failures count all the same.
        let failures = (2..=IN_A_ROW).map(|_| fail(&health, Failure::Unreachable, ACME, 1_000));
        assert_eq!(failures.flatten().count(), 1);
    }

    #[test]
    fn failures_of_several_tenants_eject() {
        let health = Health::default();
        for tenant in [ACME, OTHER, ACME, OTHER] {
            health.used_by(tenant, 1);
            assert_eq!(fail(&health, Failure::Application, tenant, 1), None);
        }
        health.used_by(ACME, 1);
        assert!(fail(&health, Failure::Application, ACME, 1).is_some());
    }

    #[test]
    fn a_server_belongs_to_one_tenant_again_after_a_minute() {
        let health = Health::default();
        health.used_by(OTHER, 1);
        health.used_by(ACME, 1);
        let now = 1 + SEVERAL;
        health.used_by(ACME, now);
        let failures = (0..IN_A_ROW).map(|_| fail(&health, Failure::Application, ACME, now));
        assert_eq!(failures.flatten().count(), 1);
    }

    #[test]
    fn the_gauge_counts_a_server_while_it_is_ejected() {
        let gauge = Gauge::default();
        let health = Health::default();
        for _ in 0..IN_A_ROW {
            health.failed(Failure::Unreachable, ACME, 1, NONE, || InGauge::new(&gauge));
        }
        assert_eq!(gauge.get(), 1);
        assert!(health.succeeded());
        assert_eq!(gauge.get(), 0);
        for _ in 0..IN_A_ROW {
            health.failed(Failure::Unreachable, ACME, 1, NONE, || InGauge::new(&gauge));
        }
        drop(health);
        assert_eq!(gauge.get(), 0);
    }
}
