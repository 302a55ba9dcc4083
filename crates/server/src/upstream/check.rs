//! Active checks: requests that tell whether a server is healthy.
//!
//! A check runs while requests use its server, and for a minute more, on the
//! background runtime. Sites with equal checks of one server share it.

mod probe;
mod run;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sekisho_certs::{HostName, LogLimiter, Tenant};
use tokio::sync::mpsc;

use super::places::{Place, Places};
use super::servers::{Affinity, Server};
use crate::site::{ActiveCheck, Upstream, UpstreamTls};

pub(super) use run::Checking;

/// Checks of one server: few, since most sites ask for the same one.
#[derive(Default)]
pub(super) struct Checks(Mutex<Vec<Arc<Check>>>);

/// Source of the checks of a process.
pub(super) struct Starting {
    /// Checks that run, by tenant.
    running: Arc<Places<Tenant>>,
    started: mpsc::Sender<Started>,
    over: LogLimiter,
}

/// A check that runs.
pub(super) struct Check {
    pub(super) asks: Asks,
    /// Failures in a row. Relaxed, like `is_down`: a choice may see a result from a
    /// moment ago.
    failures: AtomicU32,
    is_down: AtomicBool,
    /// Time of the last request to the server by a site with this check.
    used: AtomicU64,
}

/// Facts of a check's request, of the site that asked for the check first.
pub(super) struct Asks {
    check: ActiveCheck,
    upstream: Arc<Upstream>,
    host: HostName,
    tenant: Tenant,
}

/// Check that begins. The server is not forgotten while it is checked.
struct Started {
    server: Arc<Server>,
    check: Arc<Check>,
    place: Place<Tenant>,
}

impl Starting {
    pub(super) fn new() -> (Self, Checking) {
        let (started, receiver) = mpsc::channel(MOST);
        let starting = Self {
            running: Places::new(MOST),
            started,
            over: LogLimiter::default(),
        };
        (starting, Checking::new(receiver))
    }

    fn place(&self, server: &Server, tenant: &Tenant) -> Option<Place<Tenant>> {
        let place = Places::take(&self.running, tenant);
        if place.is_some() {
            return place;
        }
        if let Some(others) = self.over.allow() {
            let (server, tenant) = (&server.address, tenant.as_str());
            tracing::warn!(
                %server, tenant, others,
                "upstream server not checked: {MOST} checks run already, or its tenant has its \
                 share of them; its failed requests count all the same"
            );
        }
        None
    }
}

impl Checks {
    /// Returns whether a site's check of the server failed, and keeps it running. A
    /// site without a check has none that fails.
    pub(super) fn is_down(
        &self,
        server: &Arc<Server>,
        upstream: &Arc<Upstream>,
        by: &Affinity<'_>,
        now: u64,
    ) -> bool {
        let Some(check) = &upstream.options().check else {
            return false;
        };
        let mut checks = self.lock();
        if let Some(running) = checks.iter().find(|one| one.asks.is_of(upstream, by)) {
            running.used.store(now, Ordering::Relaxed);
            return running.is_down.load(Ordering::Relaxed);
        }
        let starting = &server.common.checks;
        if let Some(place) = starting.place(server, by.tenant) {
            let check = Arc::new(Check {
                asks: Asks {
                    check: check.clone(),
                    upstream: Arc::clone(upstream),
                    host: by.host.clone(),
                    tenant: by.tenant.clone(),
                },
                failures: AtomicU32::new(0),
                is_down: AtomicBool::new(false),
                used: AtomicU64::new(now),
            });
            let started = Started {
                server: Arc::clone(server),
                check: Arc::clone(&check),
                place,
            };
            if starting.started.try_send(started).is_ok() {
                checks.push(check);
            }
        }
        false
    }

    /// Removes a check that no request has used for a minute, and for three of its
    /// intervals.
    fn remove_unused(&self, check: &Arc<Check>, now: u64) -> bool {
        let mut checks = self.lock();
        let interval = u64::try_from(check.asks.check.interval.as_millis());
        let kept = UNUSED.max(interval.unwrap_or(u64::MAX).saturating_mul(3));
        let is_unused = check.used.load(Ordering::Relaxed).saturating_add(kept) < now;
        if is_unused {
            checks.retain(|one| !Arc::ptr_eq(one, check));
        }
        is_unused
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Check>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asks {
    /// Returns whether the requests of a site's check would be the same.
    fn is_of(&self, upstream: &Arc<Upstream>, by: &Affinity<'_>) -> bool {
        if Arc::ptr_eq(&self.upstream, upstream) {
            return true;
        }
        let (own, other) = (self.upstream.options(), upstream.options());
        let has_certificate = |tls: &Arc<UpstreamTls>| tls.certificate_of.is_some();
        own.check == other.check
            && own.tls == other.tls
            && own.timeouts.connect == other.timeouts.connect
            && own.protocol == other.protocol
            && own.host == other.host
            && own.proxy_protocol == other.proxy_protocol
            && self.upstream.is_bound == upstream.is_bound
            // The certificate must belong to the site's tenant.
            && (!other.tls.as_ref().is_some_and(has_certificate) || self.tenant == *by.tenant)
    }
}

impl Check {
    /// Notes a result. Two failures in a row take the server out, one success brings
    /// it back. Returns whether that changed anything.
    fn note(&self, is_healthy: bool) -> bool {
        let failures = match is_healthy {
            true => 0,
            false => self.failures.load(Ordering::Relaxed).saturating_add(1),
        };
        self.failures.store(failures, Ordering::Relaxed);
        let is_down = failures >= IN_A_ROW;
        self.is_down.swap(is_down, Ordering::Relaxed) != is_down
    }
}

/// Checks of one process; each takes a task and a connection at times. A tenant that
/// is alone has half of them.
const MOST: usize = 256;
const IN_A_ROW: u32 = 2;
/// Milliseconds without requests after which a check ends.
const UNUSED: u64 = 60_000;

#[cfg(test)]
mod tests;
