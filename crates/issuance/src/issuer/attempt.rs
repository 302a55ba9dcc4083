//! Attempt to get the certificate of a lineage.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::credential::{Credential, SealedBytes, StoredCredential};
use sekisho_certs::store::Write;
use sekisho_certs::{ChallengeKind, Fence, HostPattern, Lineage, LineageName, Secret, StoreError};
use tokio::time::sleep;

use super::Issuer;
use super::claimed::removed;
use super::failure::Failure;
use super::held::Held;
use super::under_way::{Saved, UnderWay};
use super::working::Outcome;
use crate::acme::{Blame, ChallengeType};
use crate::admission::Issuers;
use crate::authorities::Authority;
use crate::schedule::Window;

/// Attempt of a process that has claimed the lineage.
pub(super) struct Attempt<'a> {
    pub(super) issuer: &'a Issuer,
    /// The lineage as it was last written.
    pub(super) lineage: Lineage<Secret>,
    /// State of its order, as the row keeps it.
    pub(super) state: UnderWay,
    /// The claim, which fences all writes.
    pub(super) held: &'a Held,
    /// Certificate that is in use.
    pub(super) current: Option<StoredCredential<SealedBytes>>,
    /// Names to order: those of the lineage that are in use, without the next ones.
    pub(super) names: Vec<HostPattern>,
    /// Names in use that the order leaves out: they would end the renewal of the others.
    pub(super) left_out: Vec<HostPattern>,
    /// Window in which the CA suggests renewal.
    pub(super) suggested: Option<Suggested>,
    /// True if the cluster has asked too many such questions to ask one more.
    pub(super) not_asked: bool,
    /// Answers that were shown to the CA.
    pub(super) published: Vec<(ChallengeKind, String)>,
}

/// Answer of a CA about the certificate in use.
pub(super) struct Suggested {
    pub(super) directory: String,
    pub(super) window: Window,
    /// Pause until it wants to be asked again.
    pub(super) ask_again: Duration,
}

/// Request for an attempt.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) when: When,
    /// CAs that may be asked, by the CAA records that were read for a first visitor.
    pub(super) issuers: Issuers,
}

/// Time of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At once.
    Now,
    /// At once if there is no certificate in use, else if that one is due.
    IfDue,
}

impl Task {
    /// Makes a task at any CA: it reads CAA records itself.
    pub(super) fn new(when: When) -> Self {
        let issuers = Issuers::Any;
        Self { when, issuers }
    }
}

impl Issuer {
    /// Makes one attempt and writes its outcome. `IfDue` asks the CA first whether it
    /// is time.
    pub(super) async fn attempt(&self, name: &LineageName, held: &Held, task: Task) -> Outcome {
        let mut attempt = match Attempt::read(self, name, held).await {
            Ok(Some(attempt)) => attempt,
            Ok(None) => return Err(removed()),
            Err(error) => return Err(self.no_store(&error)),
        };
        let when = task.when;
        if when == When::Now {
            attempt.lineage.attempts = 0;
            (attempt.state.wanted, attempt.state.ends) = (true, false);
            attempt.state.refusals = 0;
            attempt.state.blamed.clear();
            attempt.end_wait();
        }
        attempt.ask_renewal_info().await;
        if when == When::IfDue
            && let Some(due) = attempt.later()
        {
            return attempt.postponed(due, None).await;
        }
        if let Some(outcome) = attempt.await_cnames().await {
            return outcome;
        }
        let now = attempt.now();
        if attempt.validity().is_some_and(|it| it.deadline() <= now) {
            self.metrics.late.inc();
        }
        match attempt.run(&task.issuers).await {
            Ok((credential, ca)) => attempt.issued(credential, &ca).await,
            Err(failure) => attempt.failed(failure).await,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // Another process may show other answers for these names from now on.
        for (kind, key) in &self.published {
            self.issuer.challenges.forget(*kind, key);
        }
    }
}

impl<'a> Attempt<'a> {
    /// Reads all that is known; none if there is no such lineage.
    pub(super) async fn read(
        issuer: &'a Issuer,
        name: &LineageName,
        held: &'a Held,
    ) -> Result<Option<Self>, StoreError> {
        let Some(mut lineage) = issuer.lineage(name).await? else {
            return Ok(None);
        };
        let state = UnderWay::read(lineage.order.take().as_ref());
        let ids: Vec<_> = lineage.credential.into_iter().collect();
        let current = issuer.sealer.catalog().credentials(&ids).await?.pop();
        Ok(Some(Self {
            issuer,
            lineage,
            state,
            held,
            current,
            names: Vec::new(),
            left_out: Vec::new(),
            suggested: None,
            not_asked: false,
            published: Vec::new(),
        }))
    }

    /// Returns the time of the store.
    pub(super) fn now(&self) -> i64 {
        self.issuer.now()
    }

    /// Tries the CAs that are worth trying, in their order. Returns which one has issued.
    async fn run(&mut self, issuers: &Issuers) -> Result<(Credential, Arc<Authority>), Failure> {
        self.names = self.names_in_use().await?;
        self.leave_out_blamed();
        self.forget_foreign_order().await;
        let wished = self.lineage.wishes.solver.as_deref();
        let solvers = self.issuer.solvers.of(&self.names, wished);
        let mut solvers = solvers.map_err(Failure::Lacking)?;
        // Its answers may be shown already.
        let saved = self.state.order.as_ref().and_then(Saved::solver);
        solvers.sort_by_key(|solver| Some(*solver) != saved);
        // Each failed validation counts against the names: later attempts make one.
        if let Some(earlier) = self.state.refusals.checked_sub(1) {
            let is_saved = solvers.first().copied() == saved;
            let turn = if is_saved {
                0
            } else {
                earlier as usize % solvers.len()
            };
            solvers = vec![solvers[turn]];
        }
        // Without a CNAME, an order would count at the CA for nothing.
        if solvers == [ChallengeType::Dns01] && self.state.order.is_none() {
            self.check_cnames(&self.names).await?;
        }
        let wish = self.lineage.wishes.ca.clone();
        let candidates = self
            .issuer
            .authorities
            .candidates(wish.as_deref(), |ca| issuers.permits(&ca.caa_identities));
        let mut candidates = candidates.map_err(|no| Failure::of(no, self.issuer.clock.now()))?;
        // An order that is under way is gone on with before another one begins.
        candidates.sort_by_key(|authority| !self.has_order_at(authority));
        let passed_over = self.issuer.authorities.all().len() - candidates.len();
        let mut soonest = None;
        for authority in candidates {
            if let Err(no) = self.issuer.authorities.begin(&authority) {
                soonest = Some(Failure::of(no, self.issuer.clock.now()).or_sooner(soonest));
                continue;
            }
            if let Some(validity) = self.validity() {
                let lifetime = u64::try_from(validity.lifetime()).unwrap_or(0);
                authority.renews(Duration::from_secs(lifetime));
            }
            match self.at(&authority, &solvers).await {
                Err(failure) if self.may_do_elsewhere(&authority, &failure) => {
                    soonest = Some(failure.or_sooner(soonest));
                }
                done => {
                    if is_answered(&done) && self.issuer.authorities.succeeded(&authority) {
                        self.issuer.opened.notify_waiters();
                    }
                    return done.map(|credential| (credential, authority));
                }
            }
        }
        let failure = soonest.unwrap_or_else(|| Failure::Setting("no CA is configured".into()));
        // A CA that is passed over now may work long before a limit opens.
        let latest = self.issuer.clock.now() + LONGEST_OUTAGE;
        Err(match passed_over > 0 && wish.is_none() {
            true => failure.closed_at_most(latest),
            false => failure,
        })
    }

    /// Tries the challenges at one CA, one order each: an order is over when one of
    /// its challenges has failed.
    async fn at(
        &mut self,
        authority: &Authority,
        solvers: &[ChallengeType],
    ) -> Result<Credential, Failure> {
        let (last, first) = solvers.split_last().expect("there is a solver");
        for solver in first {
            match self.as_account(authority, *solver).await {
                Err(failure) if failure.is_validation() => {
                    let (solver, why) = (solver.as_str(), failure);
                    tracing::info!(lineage = %self.lineage.name, solver, %why, "trying the next challenge");
                }
                done => return self.proved_by(*solver, done),
            }
        }
        let done = self.as_account(authority, *last).await;
        self.proved_by(*last, done)
    }

    /// Notes which challenge has worked: renewals then try it first.
    fn proved_by(
        &mut self,
        solver: ChallengeType,
        done: Result<Credential, Failure>,
    ) -> Result<Credential, Failure> {
        let wished = self.lineage.wishes.solver.as_deref();
        let usual = self.issuer.solvers.of(&self.names, wished);
        if done.is_ok() && usual.is_ok_and(|usual| usual.first() != Some(&solver)) {
            self.lineage.wishes.solver = Some(solver.as_str().to_owned());
        }
        done
    }

    /// Orders with the account; once again if another server has replaced it.
    async fn as_account(
        &mut self,
        authority: &Authority,
        solver: ChallengeType,
    ) -> Result<Credential, Failure> {
        let account = self.issuer.account(authority).await?;
        let done = self.order(authority, &account, solver).await;
        if let Err(Failure::Acme(error)) = &done
            && self.issuer.accounts.is_stale(&account, error).await?
        {
            let account = self.issuer.account(authority).await?;
            return self.order(authority, &account, solver).await;
        }
        done
    }

    /// Tells whether another CA may do, and passes this one over if it failed.
    fn may_do_elsewhere(&self, authority: &Authority, failure: &Failure) -> bool {
        match failure {
            Failure::Acme(error) => {
                let (cas, lineage) = (&self.issuer.authorities, self.lineage.name.as_str());
                let is_passed_over = cas.failed_in(authority, error, lineage);
                is_passed_over || error.is_forbidden() || error.blame() != Blame::Host
            }
            Failure::Closed { .. } => true,
            _ => false,
        }
    }

    pub(super) fn has_order_at(&self, authority: &Authority) -> bool {
        let saved = self.state.order.as_ref();
        saved.is_some_and(|saved| saved.directory == authority.ca.directory())
    }

    /// Drops an order for other names than those that are in use by now.
    async fn forget_foreign_order(&mut self) {
        let saved = self.state.order.as_ref();
        if saved.is_some_and(|saved| !saved.is_for(&self.names)) {
            self.abandon_order().await;
        }
    }

    /// Writes what is kept of the order; the claim stays.
    pub(super) async fn save(&mut self) -> Result<(), Failure> {
        self.lineage.order = self.state.to_secret();
        let put = Write::PutLineage(self.lineage.clone(), Fence::Epoch(self.held.epoch));
        self.write(vec![put]).await
    }

    /// Writes under the fence: a conflict means that the claim is lost. What a CA has
    /// answered is worth some tries: the claim ends before they do.
    pub(super) async fn write(&self, writes: Vec<Write<Secret>>) -> Result<(), Failure> {
        loop {
            match self.issuer.sealer.write(writes.clone()).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict(_)) => return Err(Failure::ClaimLost),
                Err(error) if error.is_retryable() => {
                    tracing::debug!(lineage = %self.lineage.name, %error, "writing again");
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Tells whether the CA did its part: it issued, or found the host's answer wrong.
fn is_answered(done: &Result<Credential, Failure>) -> bool {
    match done {
        Ok(_) => true,
        Err(Failure::Acme(error)) => error.blame() == Blame::Host,
        Err(_) => false,
    }
}

/// Time between two tries to write.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Seconds after which a CA that failed is tried again at the latest.
const LONGEST_OUTAGE: i64 = 600;
