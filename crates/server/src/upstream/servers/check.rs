//! Active checks: requests that tell whether a server is healthy.
//!
//! A check runs while requests use its server, and for a minute more, on the
//! background runtime. It is known by what it asks: sites of all tenants with equal
//! checks of one server share it.

mod probe;
mod run;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;
use http::HeaderValue;
use sekisho_certs::{HostName, LogLimiter, Tenant, lock};
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::sync::mpsc;

use super::{Affinity, Server};
use crate::site::{ActiveCheck, Address, Protocol, ProxyVersion, Upstream, UpstreamTls};

pub(in crate::upstream) use run::Checking;

/// Checks of a process.
pub(in crate::upstream) struct Checks {
    by_question: Mutex<HashMap<Question, Arc<Check>, RandomState>>,
    /// Permits of checks that run, by the tenant that asked first.
    running: Gate<Tenant>,
    started: mpsc::Sender<Started>,
    over: LogLimiter,
}

/// The check of one backend, once a request has asked for it.
#[derive(Default)]
pub(in crate::upstream) struct Checked(Mutex<Known>);

#[derive(Default)]
struct Known {
    check: Option<Arc<Check>>,
    /// Time until which no check is begun, since one was refused.
    refused_until: u64,
}

/// A check that runs.
pub(in crate::upstream) struct Check {
    /// Facts of its request, of the site that asked for the check first.
    active: ActiveCheck,
    upstream: Arc<Upstream>,
    host: HostName,
    tenant: Tenant,
    /// Failures in a row. Relaxed, like `is_down`: a choice may see a result from a
    /// moment ago.
    failures: AtomicU32,
    is_down: AtomicBool,
    /// Time of the last request to the server by a site with this check.
    used: AtomicU64,
    /// Relaxed: a request that sees it late goes by the last result.
    has_ended: AtomicBool,
}

/// Facts that a check asks by. Checks with equal facts are one check.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    address: Address,
    check: ActiveCheck,
    tls: Option<Arc<UpstreamTls>>,
    connect: Duration,
    protocol: Protocol,
    host: Option<HeaderValue>,
    proxy_protocol: Option<ProxyVersion>,
    is_bound: bool,
    /// Tenant whose client certificate is shown, or whose permits open the Unix socket; none
    /// without either.
    tenant: Option<Tenant>,
}

/// Check that begins. The server is not forgotten while it is checked.
struct Started {
    server: Arc<Server>,
    check: Arc<Check>,
    permit: Permit<Tenant>,
}

impl Checks {
    pub(in crate::upstream) fn new() -> (Self, Checking) {
        let (started, receiver) = mpsc::channel(MOST);
        let checks = Self {
            by_question: Mutex::default(),
            running: Gate::new(MOST, Sharing::FewerThanLeft, 0),
            started,
            over: LogLimiter::default(),
        };
        (checks, Checking(receiver))
    }

    /// Returns whether a site's check of the server failed, and keeps it running. A
    /// site without a check has none that fails.
    pub(in crate::upstream) fn is_down(
        &self,
        server: &Arc<Server>,
        upstream: &Arc<Upstream>,
        by: &Affinity<'_>,
        now: u64,
    ) -> bool {
        let Some(check) = &upstream.options().check else {
            return false;
        };
        let mut known = lock(&server.checked.0);
        let running = known.check.as_ref();
        if running.is_none_or(|running| !running.is_kept(now)) {
            if now < known.refused_until {
                return false;
            }
            known.check = self.start(server, upstream, check, by, now);
            if known.check.is_none() {
                known.refused_until = now + REFUSED;
            }
        }
        let running = known.check.as_ref();
        running.is_some_and(|running| running.is_down.load(Ordering::Relaxed))
    }

    /// Returns the check with the question of this one, and begins it if none runs.
    fn start(
        &self,
        server: &Arc<Server>,
        upstream: &Arc<Upstream>,
        check: &ActiveCheck,
        by: &Affinity<'_>,
        now: u64,
    ) -> Option<Arc<Check>> {
        let question = Question::of(server, upstream, check, by.tenant);
        let mut by_question = lock(&self.by_question);
        if let Some(running) = by_question.get(&question) {
            running.used.store(now, Ordering::Relaxed);
            return Some(Arc::clone(running));
        }
        let permit = self.permit(server, by.tenant)?;
        let check = Arc::new(Check {
            active: check.clone(),
            upstream: Arc::clone(upstream),
            host: by.host.clone(),
            tenant: by.tenant.clone(),
            failures: AtomicU32::new(0),
            is_down: AtomicBool::new(false),
            used: AtomicU64::new(now),
            has_ended: AtomicBool::new(false),
        });
        let started = Started {
            server: Arc::clone(server),
            check: Arc::clone(&check),
            permit,
        };
        self.started.try_send(started).ok()?;
        by_question.insert(question, Arc::clone(&check));
        Some(check)
    }

    fn permit(&self, server: &Server, tenant: &Tenant) -> Option<Permit<Tenant>> {
        let permit = self.running.try_enter(tenant.clone());
        if permit.is_some() {
            return permit;
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

    /// Ends a check that no request has used for a minute, and for three of its
    /// intervals.
    fn end_unused(&self, check: &Arc<Check>, now: u64) -> bool {
        let interval = u64::try_from(check.active.interval.as_millis());
        let kept = UNUSED.max(interval.unwrap_or(u64::MAX).saturating_mul(3));
        let mut by_question = lock(&self.by_question);
        let ends = check.used.load(Ordering::Relaxed).saturating_add(kept) < now;
        if ends {
            check.has_ended.store(true, Ordering::Relaxed);
            by_question.retain(|_, one| !Arc::ptr_eq(one, check));
        }
        ends
    }
}

impl Question {
    fn of(server: &Server, upstream: &Upstream, check: &ActiveCheck, tenant: &Tenant) -> Self {
        let options = upstream.options();
        let tls = options.tls.as_ref();
        let has_certificate = tls.is_some_and(|tls| tls.certificate_of.is_some());
        let is_tenants = has_certificate || matches!(server.address, Address::Unix(_));
        Self {
            address: server.address.clone(),
            check: check.clone(),
            tls: options.tls.clone(),
            connect: options.timeouts.connect,
            protocol: options.protocol,
            host: options.host.clone(),
            proxy_protocol: options.proxy_protocol,
            is_bound: upstream.is_bound,
            tenant: is_tenants.then(|| tenant.clone()),
        }
    }
}

impl Check {
    /// Notes a request to the server. Returns false if the check has ended.
    fn is_kept(&self, now: u64) -> bool {
        self.used.store(now, Ordering::Relaxed);
        !self.has_ended.load(Ordering::Relaxed)
    }

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
/// Milliseconds for which a refused check is not begun.
const REFUSED: u64 = 1_000;

#[cfg(test)]
mod tests;
