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

use ejection::Ejection;
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

    /// Claims the right to try a server that is [`Standing::Due`]. If the claimer
    /// never notes an outcome, the next one may try after 5 s.
    pub(super) fn claim(&self, site: Site, now: u64) -> bool {
        (self.own.standing(site, now) != Standing::Due || self.own.claim(site, now))
            && (self.all.standing(now) != Standing::Due || self.all.claim(now))
    }

    /// Returns whether the server is ejected for all sites, or its pause is over.
    pub(super) fn is_ejected(&self) -> bool {
        self.all.standing(0) != Standing::Healthy
    }

    /// Gives the right to try the server for all sites to the next request, unless an
    /// outcome was noted. A site whose own settings keep it from connecting thus
    /// prolongs no ejection.
    pub(super) fn give_back(&self, now: u64) {
        self.all.give_back(now);
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
