//! First access: a visitor waits for the certificate.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use sekisho_certs::store::{BoxFuture, Precondition, Write};
use sekisho_certs::{
    HostName, HostPattern, HostRecord, Lineage, LineageName, Obtain, Obtained, Secret, StoreError,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::attempt::{Task, When};
use super::under_way::UnderWay;
use super::working::Outcome;
use super::{Issuer, NoCertificate};
use crate::admission::{Allowed, Decision};

/// Issuer as the lookup asks it. Its work is done on a runtime of its own.
#[derive(Debug)]
pub struct OnDemand {
    issuer: Arc<Issuer>,
    runtime: Handle,
}

impl OnDemand {
    /// Hands the work to this runtime.
    #[must_use]
    pub fn new(issuer: Arc<Issuer>, runtime: Handle) -> Self {
        Self { issuer, runtime }
    }
}

impl Obtain for OnDemand {
    fn obtain<'a>(
        &'a self,
        name: &'a HostName,
        record: Option<&'a HostRecord>,
    ) -> BoxFuture<'a, Obtained> {
        // Unknown names are many: they cost no task and make nobody wait.
        if let Some(refused) = self.issuer.admission.refuses(name, record) {
            return Box::pin(std::future::ready(refused));
        }
        let tenant = record.map(|record| record.tenant.clone());
        let Some(permit) = self.issuer.visits.try_enter(tenant) else {
            return Box::pin(std::future::ready(failed("too many first visits at once")));
        };
        let (issuer, name, record) = (Arc::clone(&self.issuer), name.clone(), record.cloned());
        let visit = async move {
            let _permit = permit;
            issuer.visited(&name, record.as_ref()).await
        };
        let visit = self.runtime.spawn(visit);
        Box::pin(async move {
            let broken_off = |error| failed(format!("the work was broken off: {error}"));
            visit.await.unwrap_or_else(broken_off)
        })
    }
}

impl Issuer {
    /// Gets a certificate for the first visitor of a name, if it may have one.
    async fn visited(self: &Arc<Self>, name: &HostName, record: Option<&HostRecord>) -> Obtained {
        let cas = self.authorities.metas().await;
        let decision = self.admission.decide(name, record, &cas).await;
        match decision {
            Decision::Refused { why, retry_after } => {
                self.metrics.access_refused.inc();
                self.refused(name, record, &why).await;
                Obtained::Refused { retry_after }
            }
            Decision::Failed { why, retry_after } => {
                self.metrics.access_failed.inc();
                Obtained::Failed { why, retry_after }
            }
            Decision::Allowed(allowed) => {
                self.metrics.access_allowed.inc();
                let obtained = self.admitted(&allowed, record.is_none()).await;
                obtained.unwrap_or_else(|error| failed(error.to_string()))
            }
        }
    }

    /// Gets a certificate for a name that may have one, or says why not now. Visitors
    /// wait for a second attempt, if it comes soon: CAs fail for moments.
    async fn admitted(
        self: &Arc<Self>,
        allowed: &Allowed,
        makes_hosts: bool,
    ) -> Result<Obtained, StoreError> {
        let until = Instant::now() + PATIENCE;
        let mut is_due = false;
        loop {
            let (why, next) = match self.visit(allowed, makes_hosts, is_due).await? {
                Visited::Done(obtained) => return Ok(obtained),
                Visited::Again(why, next) => (why, next),
            };
            let seconds = u64::try_from(next - self.now()).unwrap_or(0);
            let at = Instant::now() + Duration::from_secs(seconds).max(SOONEST);
            if at > until {
                let retry_after = pause(next, self.now());
                return Ok(Obtained::Failed { why, retry_after });
            }
            is_due = tokio::select! {
                () = sleep_until(at) => false,
                // An order of another name has found that the CA works.
                () = self.opened.notified() => true,
            };
        }
    }

    /// Makes one attempt, or joins one. With `is_due` a lineage that is to be tried later
    /// is tried now.
    async fn visit(
        self: &Arc<Self>,
        allowed: &Allowed,
        makes_hosts: bool,
        is_due: bool,
    ) -> Result<Visited, StoreError> {
        let mut name = LineageName::from(&allowed.pattern);
        let mut there = self.lineage(&name).await?;
        if there.as_ref().is_some_and(|there| !is_for(there, allowed)) {
            // That certificate has lost this name, or is of the tenant before.
            name = own_name(allowed);
            there = self.lineage(&name).await?;
        }
        if let Some(joined) = self.working.join(&name) {
            return Ok(joined.outcome().await.into());
        }
        if there.as_ref().is_some_and(Lineage::is_refused) {
            self.admit_again(&name).await?;
        } else if let Some(there) = there {
            if let Some(waits) = self.waits(&there).filter(|_| !is_due) {
                return Ok(waits);
            }
            if self.adopt(&there, &allowed.pattern).await? {
                return Ok(Visited::Done(Obtained::Stored));
            }
        } else {
            let mut lineage = self.first(allowed, makes_hosts);
            lineage.name = name.clone();
            // If this one is not stored, another server was faster.
            self.add(lineage).await?;
        }
        let of_tenant = self.first_orders.try_enter(allowed.tenant.clone());
        let order = Arc::clone(&self.orders).try_acquire_owned();
        let (Some(of_tenant), Ok(order)) = (of_tenant, order) else {
            // The lineage is due: it is taken up in its turn.
            self.due.notify_one();
            return Ok(Visited::Done(failed("too many orders are in flight")));
        };
        let task = Task {
            when: When::IfDue,
            issuers: allowed.issuers.clone(),
        };
        let work = self.start(&name, None, task, (order, Some(of_tenant)));
        Ok(work.outcome().await.into())
    }

    /// Makes the lineage of a name that has none.
    fn first(&self, allowed: &Allowed, makes_hosts: bool) -> Lineage<Secret> {
        let (now, tenant) = (self.now(), allowed.tenant.clone());
        let turn = self.turns.next(&tenant, now);
        let lineage = Lineage::new(tenant, [allowed.pattern.clone()]);
        let mut lineage = lineage.expect("a lineage of one name");
        lineage.due = Some(now);
        lineage.turn = turn;
        let state = UnderWay {
            makes_hosts,
            ..UnderWay::default()
        };
        lineage.order = state.to_secret();
        lineage
    }

    /// Returns what holds a lineage up; none if work on it may begin, or be joined.
    fn waits(&self, lineage: &Lineage<Secret>) -> Option<Visited> {
        let Some(due) = lineage.due else {
            // Somebody has decided that nothing is to be done.
            return Some(Visited::Done(Obtained::Refused { retry_after: None }));
        };
        // Its certificate may be there since the record was read, or its hosts were
        // removed and have come back.
        let failed = lineage.last_error.as_ref()?;
        let is_later = lineage.claim.is_none() && due > self.now();
        is_later.then(|| Visited::Again(failed.text.as_str().into(), due))
    }

    /// Lets a host refer to the certificate that its lineage has: it was stored since
    /// the record was read, or the host was removed and has come back.
    async fn adopt(
        &self,
        lineage: &Lineage<Secret>,
        pattern: &HostPattern,
    ) -> Result<bool, StoreError> {
        let catalog = self.sealer.catalog();
        let stored = catalog
            .credentials(lineage.credential.as_slice())
            .await?
            .pop();
        let Some(stored) = stored.filter(|_| lineage.names.contains(pattern)) else {
            return Ok(false);
        };
        let record = catalog.hosts(std::slice::from_ref(pattern)).await?.pop();
        let Some(mut record) = record.filter(|one| one.tenant == lineage.tenant) else {
            return Ok(false);
        };
        if record.references.iter().next().is_some() {
            return Ok(true);
        }
        record.references.set(stored.key_type, Some(stored.id));
        let expected = Precondition::Version(record.version);
        self.sealer
            .write(vec![Write::PutHost(record, expected)])
            .await?;
        Ok(true)
    }
}

/// Result of one attempt for a visitor.
enum Visited {
    Done(Obtained),
    /// The attempt failed for this reason, and is made again at this Unix second.
    Again(Arc<str>, i64),
}

impl From<Outcome> for Visited {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(_) => Self::Done(Obtained::Stored),
            Err(NoCertificate {
                why,
                next: Some(next),
                ..
            }) => Self::Again(why, next),
            Err(NoCertificate { why, .. }) => Self::Done(failed(why)),
        }
    }
}

/// Tells whether a lineage is to get this name a certificate.
fn is_for(lineage: &Lineage<Secret>, allowed: &Allowed) -> bool {
    lineage.tenant == allowed.tenant && lineage.names.contains(&allowed.pattern)
}

/// Returns the name of a lineage where the usual one is taken: another for each tenant.
fn own_name(allowed: &Allowed) -> LineageName {
    let of = format!("{} {}", allowed.pattern, allowed.tenant.as_str());
    let hash = digest(&SHA256, of.as_bytes());
    let name = format!("own:{}", HEXLOWER.encode(&hash.as_ref()[..16]));
    LineageName::parse(&name).expect("a name of a lineage")
}

/// Returns a failure after which the next visitor may try again soon.
fn failed(why: impl Into<Arc<str>>) -> Obtained {
    Obtained::Failed {
        why: why.into(),
        retry_after: SOON,
    }
}

/// Returns the time until a Unix second, at most [`LATEST`]: what others do meanwhile
/// may not be announced.
fn pause(until: i64, now: i64) -> Duration {
    let seconds = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
    Duration::from_secs(seconds).clamp(Duration::from_secs(1), LATEST)
}

/// Time within which a visitor's order is tried again, as the default of `[acme]
/// handshake_timeout`. Names that are to blame pause for a minute or more.
const PATIENCE: Duration = Duration::from_secs(20);
/// The shortest pause of a visitor: clocks of servers differ.
const SOONEST: Duration = Duration::from_secs(2);
/// Pause where nothing says when it is worth trying again.
const SOON: Duration = Duration::from_secs(5);
const LATEST: Duration = Duration::from_hours(1);
