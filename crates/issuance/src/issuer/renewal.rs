//! Renewal of what is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sekisho_certs::metrics::Counter;
use sekisho_certs::{StoreError, ToClaim};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Issuer;
use super::attempt::{Attempt, Suggested, Task, When};
use crate::acme::Fault;
use crate::quota::{Charge, Limit, Share};
use crate::schedule::{ARI_PER_SECOND, Seed, ari_pause, ari_retry, renewal_due};

impl Issuer {
    /// Gets certificates for lineages that are due, until it is dropped or
    /// [`Self::stop_claiming`]: the most urgent first, those of dead servers too.
    pub async fn renew_due(self: Arc<Self>) {
        let work = || Arc::clone(&self).renew();
        restarted(work, &self.metrics.panics).await;
    }

    async fn renew(self: Arc<Self>) {
        let mut count_at = Instant::now();
        loop {
            if Instant::now() >= count_at {
                let is_counted = self.count().await;
                count_at = Instant::now() + if is_counted { COUNT } else { COUNT_AGAIN };
            }
            let Some(busy) = self.activity.begin_renewal() else {
                return;
            };
            let more = self.take_due().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "what is due for renewal is not known");
                false
            });
            // Claimed work counts by itself now.
            drop(busy);
            let pause = async {
                match more {
                    true => sleep(BREATH).await,
                    // No notification tells this server of what others have put.
                    false => drop(timeout(PAUSE, self.due.notified()).await),
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.activity.stopped() => return,
            }
        }
    }

    /// Claims what is due and begins with it. Tells whether more may be due.
    async fn take_due(self: &Arc<Self>) -> Result<bool, StoreError> {
        let free = self.orders.available_permits();
        // A first visitor waits; nobody waits for a renewal.
        let free = free.saturating_sub(self.most_orders / 4);
        let permit = |_| Arc::clone(&self.orders).try_acquire_owned().ok();
        let permits: Vec<_> = (0..free).map_while(permit).collect();
        if permits.is_empty() {
            return Ok(true);
        }
        let asked = permits.len();
        let due = ToClaim::Due {
            limit: asked,
            able: self.able.clone(),
        };
        let claimed = self.claim_all(due).await?;
        let more = claimed.len() == asked;
        for ((name, claim), permit) in claimed.into_iter().zip(permits) {
            // Another task may have begun since the claim: it has the same one.
            let task = Task::new(When::IfDue);
            drop(self.start(&name, Some(claim), task, (permit, None)));
        }
        Ok(more)
    }

    /// Counts the lineages, which sets the pace of questions to CAs. Tells whether that
    /// went well.
    pub(super) async fn count(&self) -> bool {
        match self.sealer.catalog().count_lineages().await {
            Ok(count) => {
                self.lineages.store(count, Ordering::Relaxed);
                true
            }
            Err(error) => {
                let assumed = self.lineages.load(Ordering::Relaxed);
                tracing::warn!(%error, assumed, "lineages not counted: a wrong count makes \
                    questions to CAs for renewal windows too frequent or too rare");
                false
            }
        }
    }

    /// Counts the lineages in a process that does not renew, such as a command.
    pub(super) async fn count_once(&self) {
        if self.lineages.load(Ordering::Relaxed) == UNCOUNTED {
            self.count().await;
        }
    }

    /// Returns the seconds until the CA is asked again about a certificate.
    pub(super) fn renewal_info_pause(&self, ask_again: Option<Duration>) -> i64 {
        let ask_again = ask_again.map(|pause| i64::try_from(pause.as_secs()).unwrap_or(i64::MAX));
        ari_pause(self.lineages.load(Ordering::Relaxed), ask_again)
    }
}

impl Attempt<'_> {
    /// Asks the CA for the window of renewal (RFC 9773), if the cluster may ask now.
    /// Without an answer the own schedule holds. Section 4.3 of the RFC forbids
    /// questions about a certificate that has expired.
    pub(super) async fn ask_renewal_info(&mut self) {
        let now = self.now();
        let valid = self.current.as_ref().filter(|one| now <= one.not_after);
        let Some(leaf) = valid.and_then(|one| one.chain.first().cloned()) else {
            return;
        };
        let (authorities, ledger) = (&self.issuer.authorities, &self.issuer.ledger);
        let issued_by = self.lineage.issued_by.clone();
        for authority in authorities.all() {
            // Only the CA that has issued a certificate knows it. A question to a CA that is
            // down would keep a permit of an order.
            let directory = authority.ca.directory();
            let knows_it = issued_by.as_deref().is_none_or(|one| one == directory);
            if !knows_it || !authority.is_worth_asking(Instant::now()) {
                continue;
            }
            let taken = ledger.take(ARI, &[questions()], Share::Whole).await;
            if !matches!(taken, Ok(Ok(()))) {
                self.not_asked = true;
                return;
            }
            match authority.ca.renewal_info(&leaf).await {
                Ok(info) => {
                    self.issuer.metrics.information_answered.inc();
                    self.lineage.issued_by = Some(directory.to_owned());
                    self.suggested = Some(Suggested {
                        directory: directory.to_owned(),
                        window: info.window,
                        ask_again: info.ask_again,
                    });
                    return;
                }
                Err(error) => {
                    self.issuer.metrics.information_failed.inc();
                    if matches!(error.fault, Fault::Unreachable(_)) {
                        authorities.failed(authority, &error);
                    }
                    tracing::debug!(lineage = %self.lineage.name, %error, "no renewal information");
                }
            }
        }
    }

    /// Returns when to look again at a certificate that is not due yet; none if it is.
    pub(super) fn later(&self) -> Option<i64> {
        let (validity, now) = (self.validity()?, self.now());
        let seed = Seed::of(self.lineage.name.as_str());
        let window = self.suggested.as_ref().map(|suggested| suggested.window);
        // As of the start of its validity, the time stays the same at each look.
        let due = renewal_due(validity.not_before, validity, window, seed);
        let ask_again = self.suggested.as_ref().map(|suggested| suggested.ask_again);
        let pause = match self.not_asked {
            true => ari_retry(now, self.issuer.lineages.load(Ordering::Relaxed), seed),
            false => self.issuer.renewal_info_pause(ask_again),
        };
        let look = now + pause;
        let is_wanted = self.state.revoked || self.state.wanted;
        (due > now && !is_wanted).then(|| due.min(look))
    }
}

/// Runs work in a task of its own, and again after each panic: else a bug would end
/// renewal, and nobody would notice before certificates expire.
async fn restarted<F>(work: impl Fn() -> F, panics: &Counter)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        // Dropping the set ends its task.
        let mut task = JoinSet::new();
        task.spawn(work());
        let Some(Err(error)) = task.join_next().await else {
            return;
        };
        panics.inc();
        let again_in_s = RESTART.as_secs();
        tracing::error!(%error, again_in_s, "renewal panicked: starting it again");
        sleep(RESTART).await;
    }
}

/// Limit of questions, shared by the cluster.
fn questions() -> Charge {
    let per_second = u32::try_from(ARI_PER_SECOND).unwrap_or(1);
    Charge {
        key: "questions".to_owned(),
        limit: Limit::new(per_second, 1).expect("it is not zero"),
    }
}

/// Name of the limit, which no CA has.
const ARI: &str = "renewal-info";
/// Time between two looks for what is due, where nothing was.
const PAUSE: Duration = Duration::from_secs(5);
/// Time between two claims while more is due than this server may do at once.
const BREATH: Duration = Duration::from_millis(250);
/// Time between two counts of the lineages.
const COUNT: Duration = Duration::from_hours(1);
/// Time until the next count after one that failed.
const COUNT_AGAIN: Duration = Duration::from_mins(1);
/// Number of lineages until they are counted: as many as a catalog is made for. With too
/// many, a CA is asked too rarely for a while. With too few, all of 10 million would be
/// looked at each 6 hours, for ever.
pub(super) const UNCOUNTED: u64 = 10_000_000;
/// Pause after a panic, which the same lineage may cause again.
const RESTART: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::super::claimed::tests::claimed;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_replaced_claims_nothing_more() {
        let (issuer, _, name, claim) = claimed().await;
        let renewal = tokio::spawn(Arc::clone(&issuer).renew_due());
        sleep(PAUSE * 3).await;
        assert!(!renewal.is_finished() && !issuer.activity.is_busy());
        let permit = issuer.permit().await;
        let work = issuer.start(&name, Some(claim), Task::new(When::Now), permit);
        assert!(issuer.activity.is_busy());
        issuer.stop_claiming();
        issuer.stop_claiming();
        issuer.ended().await;
        assert!(!issuer.activity.is_busy());
        let why = work.outcome().await.unwrap_err().why;
        assert!(why.contains("unknown"), "work goes on to its end: {why}");
        renewal.await.unwrap();
        // Lineages that are due later are left to others.
        Arc::clone(&issuer).renew_due().await;
        assert_eq!(issuer.lineage(&name).await.unwrap().unwrap().claim, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_does_not_end_renewal() {
        let (runs, panics) = (Arc::new(AtomicU32::new(0)), Counter::default());
        let work = || {
            let runs = Arc::clone(&runs);
            async move { assert!(runs.fetch_add(1, Ordering::SeqCst) == 2, "a bug") }
        };
        restarted(work, &panics).await;
        assert_eq!((runs.load(Ordering::SeqCst), panics.get()), (3, 2));
    }
}
