//! Passive health of a server: ejection after failures in a row.
//!
//! Five failures in a row eject a server: requests go to the site's other servers.
//! The first pause is 5 s. When a pause is over, one request at a time tries the
//! server. If that fails, the next pause is twice as long, up to 2 min; one success
//! ends the ejection.
//!
//! An address that many tenants' sites name is one server here. A failure that no
//! setting of a site can cause counts for all of them: a name without an address, and
//! a connection that is refused, reset, or not there within the default time. Any
//! other may be the fault of one tenant's settings or application: a shorter time,
//! the PROXY header, TLS, the version of HTTP, an answer of 502, 503 or 504, and no
//! answer. Such a failure counts for that tenant's sites with equal settings alone.

mod ejection;
mod own;

use std::time::Duration;

use sekisho_certs::metrics::InGauge;

use ejection::{Ejection, Trial};
use own::Own;

/// Health of one server.
#[derive(Debug, Default)]
pub(super) struct Health {
    all: Ejection,
    own: Own,
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

/// Sites that fail together: those of one tenant with equal settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Hash of the tenant.
    pub(super) tenant: u64,
    /// Hash of the settings that a failure may come from.
    pub(super) settings: u64,
}

/// Rights of a request to try its server: for all sites, and for its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trials {
    all: Trial,
    own: Trial,
}

impl Trials {
    /// Returns whether the server is tried.
    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// No connection came about, whatever the site's settings.
    Unreachable,
    /// Failure that the site's settings or its application may cause.
    Own,
}

impl Health {
    /// Returns the worse of the standings for all and for the site.
    pub(super) fn standing(&self, site: Site, now: u64) -> Standing {
        self.all.standing(now).max(self.own.standing(site, now))
    }

    /// Claims the right to use a server: to try one that is [`Standing::Due`]. If the
    /// claimer neither notes an outcome nor gives it back, the next one may try after 5 s.
    pub(super) fn claim(&self, site: Site, now: u64) -> Option<Trials> {
        let own = self.own.claim(site, now)?;
        let Some(all) = self.all.claim(now) else {
            self.own.give_back(site, own, now);
            return None;
        };
        Some(Trials { all, own })
    }

    /// Gives the right to try the server to the next request, unless an outcome was noted.
    /// A site whose own settings keep it from connecting thus prolongs no ejection.
    pub(super) fn give_back(&self, site: Site, trials: Trials, now: u64) {
        self.all.give_back(trials.all, now);
        self.own.give_back(site, trials.own, now);
    }

    /// Notes that a connection came about. Returns true if it ends an ejection.
    pub(super) fn reached(&self) -> bool {
        self.all.succeeded()
    }

    /// Notes an answer; returns true if it ends an ejection.
    pub(super) fn succeeded(&self, site: Site) -> bool {
        let ended = self.own.succeeded(site);
        self.all.succeeded() || ended
    }

    /// Notes a failure that a site's request met. Returns the pause if it ejects the
    /// server. `jitter` is any number; `count` counts an ejected server.
    pub(super) fn failed(
        &self,
        failure: FailureKind,
        site: Site,
        now: u64,
        jitter: u64,
        count: impl FnOnce() -> InGauge,
    ) -> Option<Duration> {
        match failure {
            FailureKind::Unreachable => self.all.failed(now, jitter, count),
            FailureKind::Own => self.own.failed(site, now, jitter, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use sekisho_certs::metrics::Gauge;

    use super::*;

    const SITE: Site = Site {
        tenant: 1,
        settings: 1,
    };

    fn eject(health: &Health, failure: FailureKind, now: u64) {
        for _ in 0..5 {
            health.failed(
                failure,
                SITE,
                now,
                1_250,
                || InGauge::new(&Gauge::default()),
            );
        }
    }

    #[test]
    fn a_sites_trial_is_not_lost_to_the_pause_of_all() {
        let health = Health::default();
        eject(&health, FailureKind::Own, 1_000);
        eject(&health, FailureKind::Unreachable, 2_000);
        // The site's own pause is over, that for all sites not yet.
        assert_eq!(health.claim(SITE, 6_500), None);
        assert!(health.claim(SITE, 7_000).is_some());
    }

    #[test]
    fn a_request_gives_back_what_it_claimed_itself() {
        let health = Health::default();
        eject(&health, FailureKind::Own, 1_000);
        eject(&health, FailureKind::Unreachable, 1_000);
        let trials = health.claim(SITE, 6_000).unwrap();
        health.give_back(SITE, Trials::default(), 6_001);
        assert_eq!(health.claim(SITE, 6_001), None);
        health.give_back(SITE, trials, 6_002);
        assert!(health.claim(SITE, 6_002).is_some());
    }
}
