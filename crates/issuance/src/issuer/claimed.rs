//! Work on one lineage under its claim.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::metrics::InGauge;
use sekisho_certs::store::Write;
use sekisho_certs::{Claim, Fence, Lineage, LineageName, Secret, StoreError, Tenant, ToClaim};
use sekisho_gate::Permit;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use super::attempt::Task;
use super::failure::CLAIM_LOST;
use super::held::Held;
use super::working::{Joined, Outcome};
use super::{Issued, Issuer, NoCertificate};

/// Permit of an order in flight, and that of an order for a first visitor.
pub(super) type OrderPermit = (OwnedSemaphorePermit, Option<Permit<Tenant>>);

impl Issuer {
    /// Begins to work on a lineage in a task of its own, or joins who does. The task takes
    /// a claim that this process has got for it.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &LineageName,
        claim: Option<Claim>,
        task: Task,
        permit: OrderPermit,
    ) -> Joined {
        let (joined, mine) = self.working.begin(name);
        if let Some(mine) = mine {
            let (issuer, name) = (Arc::clone(self), name.clone());
            let busy = self.activity.begin();
            tokio::spawn(async move {
                let _busy = busy;
                let outcome = issuer.take_up(&name, claim, task, permit).await;
                mine.end(outcome);
            });
        }
        joined
    }

    /// Claims a lineage and works on it, or waits for the process that does.
    async fn take_up(
        &self,
        name: &LineageName,
        claim: Option<Claim>,
        task: Task,
        permit: OrderPermit,
    ) -> Outcome {
        let claimed = match claim {
            Some(claim) => Ok(Some(claim)),
            None => self.claim(name).await,
        };
        match claimed {
            Ok(Some(claim)) => self.work(name, &claim, task).await,
            Ok(None) => {
                // Another process works on it: this permit is not needed.
                drop(permit);
                self.wait_for_other(name, task).await
            }
            Err(error) => Err(self.no_store(&error)),
        }
    }

    /// Makes an attempt, and prolongs the claim meanwhile.
    async fn work(&self, name: &LineageName, claim: &Claim, task: Task) -> Outcome {
        let _order = InGauge::new(&self.metrics.in_flight);
        let held = Held::new(claim);
        tokio::select! {
            outcome = self.attempt(name, &held, task) => outcome,
            why = self.keep_claim(name, &held) => {
                tracing::warn!(lineage = %name, %why, "work broken off");
                Err(NoCertificate::new(why, None))
            }
        }
    }

    /// Returns the claim; none if another process has it, or there is no such lineage.
    pub(super) async fn claim(&self, name: &LineageName) -> Result<Option<Claim>, StoreError> {
        let named = ToClaim::Named(vec![name.clone()]);
        let claimed = self.claim_all(named).await?.pop();
        Ok(claimed.map(|(_, claim)| claim))
    }

    /// Claims lineages for this process, and notes the store's time.
    pub(super) async fn claim_all(
        &self,
        which: ToClaim,
    ) -> Result<Vec<(LineageName, Claim)>, StoreError> {
        let catalog = self.sealer.catalog();
        let claimed = catalog.claim(which, &self.holder, CLAIM).await?;
        if let Some((_, claim)) = claimed.first() {
            self.note_time(claim);
        }
        Ok(claimed)
    }

    /// Prolongs a claim until the last write of its work. Ends when the claim is lost,
    /// and says why.
    pub(super) async fn keep_claim(&self, name: &LineageName, held: &Held) -> Arc<str> {
        let mut prolonged = Instant::now();
        let mut why = "its last write was not answered".to_owned();
        while prolonged.elapsed() < CLAIM {
            sleep(CLAIM / 4).await;
            let asked = Instant::now();
            match held.prolong(self.prolong_claim(name, held.epoch)).await {
                Some(Ok(true)) => prolonged = asked,
                Some(Ok(false)) => return CLAIM_LOST.into(),
                Some(Err(error)) => {
                    tracing::debug!(lineage = %name, %error, "claim not prolonged");
                    why = error.to_string();
                }
                None => {}
            }
        }
        let seconds = CLAIM.as_secs();
        format!("the claim was lost: not prolonged for {seconds} s: {why}").into()
    }

    /// Prolongs the claim of this epoch. If it has ended, another process may have taken
    /// and released the lineage, and this call has claimed it anew. That claim is given
    /// back: nothing works under it, and all others would wait for it.
    async fn prolong_claim(&self, name: &LineageName, epoch: u64) -> Result<bool, StoreError> {
        let claimed = self.claim(name).await?.map(|claim| claim.epoch);
        if let Some(anew) = claimed.filter(|claimed| *claimed != epoch)
            && let Some(mut lineage) = self.lineage(name).await?
        {
            lineage.claim = None;
            let put = Write::PutLineage(lineage, Fence::Epoch(anew));
            self.sealer.write(vec![put]).await?;
        }
        Ok(claimed == Some(epoch))
    }

    /// Waits for a permit to order.
    pub(super) async fn permit(&self) -> OrderPermit {
        let order = Arc::clone(&self.orders).acquire_owned().await;
        (order.expect("the semaphore is never closed"), None)
    }

    /// Waits until another process has ended its work. If its claim ends instead, this
    /// process takes the work over.
    async fn wait_for_other(&self, name: &LineageName, task: Task) -> Outcome {
        let until = Instant::now() + LONGEST_WAIT;
        let mut pause = FIRST_LOOK;
        while Instant::now() < until {
            sleep(pause).await;
            pause = (pause * 3 / 2).min(LAST_LOOK);
            let lineage = match self.lineage(name).await {
                Ok(Some(lineage)) => lineage,
                Ok(None) => return Err(removed()),
                Err(error) => return Err(self.no_store(&error)),
            };
            let is_ours = match &lineage.claim {
                Some(claim) if claim.holder != self.holder => continue,
                // The renewal of this process has claimed it, and left it to this wait.
                Some(_) => true,
                None => false,
            };
            if is_ours || lineage.due.is_some_and(|due| due <= self.now()) {
                // Its holder is gone.
                let _permit = self.permit().await;
                if let Ok(Some(claim)) = self.claim(name).await {
                    return self.work(name, &claim, task).await;
                }
                continue;
            }
            return self.outcome_of(lineage).await;
        }
        let why = "another process has worked on it for too long";
        Err(NoCertificate::new(why, Some(self.now() + 60)))
    }

    /// Returns what another process has made of a lineage.
    async fn outcome_of(&self, lineage: Lineage<Secret>) -> Outcome {
        let stored = match lineage.credential {
            Some(id) if lineage.last_error.is_none() => {
                let found = self.sealer.catalog().credentials(&[id]).await;
                found.map_err(|error| self.no_store(&error))?.pop()
            }
            _ => None,
        };
        match (stored, lineage.last_error) {
            (Some(stored), _) => Ok(Issued {
                credential: stored.id,
                names: lineage.names,
                not_after: stored.not_after,
            }),
            (None, error) => {
                let why = error.map_or("it is not due".into(), |error| error.text);
                Err(NoCertificate::new(why, lineage.due))
            }
        }
    }

    pub(super) fn no_store(&self, error: &StoreError) -> NoCertificate {
        tracing::warn!(%error, "the catalog failed while a certificate was worked on");
        let pause = match error.is_retryable() {
            true => AFTER_HICCUP,
            false => AFTER_STORE,
        };
        NoCertificate::new(error.to_string(), Some(self.now() + pause))
    }
}

pub(super) fn removed() -> NoCertificate {
    NoCertificate::new("the lineage was removed", None)
}

/// A server that was killed holds its work up for so long.
pub(super) const CLAIM: Duration = Duration::from_secs(60);
/// Looks at the row while another process works on it: it takes a second or two.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(2);
/// The longest order, with DNS-01, is done by then.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// Seconds after which work goes on when the catalog has failed. Lookups remember it for
/// all visitors of the host: an order that is saved goes on after a hiccup.
const AFTER_STORE: i64 = 10;
const AFTER_HICCUP: i64 = 1;

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicI64;

    use sekisho_certs::seal::{KeyRing, MasterKey};
    use sekisho_certs::store::Precondition;
    use sekisho_certs::{Catalog, Challenges, Clock, HostPattern, HostRecord, Sealer, Tenant};
    use sekisho_testkit::Memory;

    use super::*;
    use crate::acme::{ChallengeType, KeyKind};
    use crate::admission;
    use crate::issuer::attempt::When;
    use crate::settings::{CaOptions, Settings};

    /// Process with the claim of a lineage that fails before any CA is asked.
    pub(in crate::issuer) async fn claimed() -> (Arc<Issuer>, Arc<Memory>, LineageName, Claim) {
        let time = Arc::new(AtomicI64::new(1_800_000_000_000));
        let memory = Arc::new(Memory::new(Clock::Manual(time)));
        let catalog: Arc<dyn Catalog> = memory.clone();
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        let sealer = Sealer::create(catalog, ring).await.unwrap();
        let settings = Settings {
            cas: vec![CaOptions::builtin("letsencrypt").unwrap()],
            contact: Vec::new(),
            agree: true,
            admission: admission::Settings::default(),
            orders: 1,
            key: KeyKind::P256,
            reuse_key: false,
            solvers: vec![ChallengeType::Http01],
            dns: Vec::new(),
            served: None,
        };
        let challenges = Arc::new(Challenges::new(sealer.clone(), Clock::System));
        let issuer = Issuer::new(settings, sealer.clone(), challenges, Clock::System).unwrap();
        let pattern = HostPattern::parse("a.example").unwrap();
        let mut lineage = Lineage::new(Tenant::default(), [pattern.clone()]).unwrap();
        lineage.wishes.ca = Some("unknown".into());
        let name = lineage.name.clone();
        let host = Write::PutHost(HostRecord::new(pattern), Precondition::Absent);
        let put = Write::PutLineage(lineage, Fence::Absent);
        sealer.write(vec![host, put]).await.unwrap();
        let claim = issuer.claim(&name).await.unwrap().unwrap();
        (Arc::new(issuer), memory, name, claim)
    }

    #[tokio::test(start_paused = true)]
    async fn work_whose_last_write_is_answered_late_leaves_no_claim() {
        let (issuer, memory, name, claim) = claimed().await;
        memory.delay_answers(CLAIM / 4 + Duration::from_secs(5));
        let outcome = issuer.work(&name, &claim, Task::new(When::Now)).await;
        let why = outcome.unwrap_err().why;
        assert!(why.contains("unknown"), "{why}");
        let lineage = issuer.lineage(&name).await.unwrap().unwrap();
        assert_eq!(lineage.claim, None);
        assert_eq!(lineage.last_error.unwrap().text, *why);
    }

    /// A count that fails must not look like an empty catalog, whose lineages are looked at
    /// each 6 hours.
    #[tokio::test]
    async fn lineages_count_as_many_until_they_are_counted() {
        let (issuer, ..) = claimed().await;
        assert_eq!(issuer.renewal_info_pause(None), 1_000_000);
        issuer.count_once().await;
        assert_eq!(issuer.renewal_info_pause(None), 6 * 3600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_claim_says_why() {
        let (issuer, memory, name, claim) = claimed().await;
        let held = Held::new(&claim);
        memory.fail_claims(4);
        let why = issuer.keep_claim(&name, &held).await;
        assert!(why.contains("for 60 s: ") && why.contains("test"), "{why}");

        // Another process has taken and released the lineage.
        let other = Claim {
            epoch: claim.epoch + 1,
            ..claim
        };
        let held = Held::new(&other);
        let why = issuer.keep_claim(&name, &held).await;
        assert!(why.contains("another process"), "{why}");
        let lineage = issuer.lineage(&name).await.unwrap().unwrap();
        assert_eq!(lineage.claim, None, "no claim without work");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_of_the_own_renewal_is_taken_by_who_waits_for_the_lineage() {
        let (issuer, _, name, _) = claimed().await;
        // A visitor waits for the process that has claimed it; that one's claim ends,
        // and the renewal of this process claims it next.
        let waiting = issuer.wait_for_other(&name, Task::new(When::Now));
        let why = waiting.await.unwrap_err().why;
        assert!(why.contains("unknown"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hiccup_of_the_catalog_is_forgotten_after_a_second() {
        let (issuer, ..) = claimed().await;
        let next = |error| issuer.no_store(&error).next.unwrap() - issuer.now();
        assert_eq!(next(StoreError::Unavailable("locked".into())), 1);
        assert_eq!(next(StoreError::Corrupt("no text".into())), 10);
    }
}
