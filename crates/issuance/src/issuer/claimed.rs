//! Work on one lineage under its claim.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::{Lineage, LineageName, Secret, StoreError, ToClaim};
use tokio::time::{Instant, sleep};

use super::attempt::{Task, When};
use super::shares::Permit;
use super::working::{Joined, Mine, Outcome};
use super::{Failed, Issued, Issuer};

impl Issuer {
    /// Begins to work on a lineage in a task of its own, or joins who does.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &LineageName,
        task: Task,
        permit: Permit,
    ) -> Joined {
        let (joined, mine) = self.working.begin(name);
        if let Some(mine) = mine {
            let (issuer, name) = (Arc::clone(self), name.clone());
            tokio::spawn(async move {
                let outcome = issuer.take_up(&name, task, permit).await;
                mine.end(outcome);
            });
        }
        joined
    }

    /// Works on a lineage that this process has claimed, in a task of its own.
    pub(super) fn start_claimed(
        self: &Arc<Self>,
        name: &LineageName,
        epoch: u64,
        permit: Permit,
        mine: Mine,
    ) {
        let (issuer, name) = (Arc::clone(self), name.clone());
        tokio::spawn(async move {
            let outcome = issuer.work(&name, epoch, Task::new(When::IfDue)).await;
            mine.end(outcome);
            drop(permit);
        });
    }

    /// Claims a lineage and works on it, or waits for the process that does.
    async fn take_up(&self, name: &LineageName, task: Task, permit: Permit) -> Outcome {
        match self.claim(name).await {
            Ok(Some(epoch)) => self.work(name, epoch, task).await,
            Ok(None) => {
                // Another process has a place for it.
                drop(permit);
                self.wait_for_other(name, task).await
            }
            Err(error) => Err(self.no_store(&error)),
        }
    }

    /// Makes an attempt, and prolongs the claim meanwhile.
    async fn work(&self, name: &LineageName, epoch: u64, task: Task) -> Outcome {
        let _order = self.metrics.in_flight();
        tokio::select! {
            outcome = self.attempt(name, epoch, task) => outcome,
            () = self.keep_claim(name, epoch) => Err(Failed {
                why: "another process took the work over".into(),
                next: None,
            }),
        }
    }

    /// Returns the epoch of the claim; none if another process has it, or there is no
    /// such lineage.
    async fn claim(&self, name: &LineageName) -> Result<Option<u64>, StoreError> {
        let named = ToClaim::Named(vec![name.clone()]);
        let claimed = self
            .sealer
            .catalog()
            .claim(named, &self.holder, CLAIM)
            .await?;
        Ok(claimed.first().map(|(_, claim)| claim.epoch))
    }

    /// Prolongs a claim; ends when it is lost.
    async fn keep_claim(&self, name: &LineageName, epoch: u64) {
        let mut held = Instant::now();
        while held.elapsed() < CLAIM {
            sleep(CLAIM / 4).await;
            let asked = Instant::now();
            match self.claim(name).await {
                Ok(Some(current)) if current == epoch => held = asked,
                Ok(_) => return,
                Err(error) => tracing::debug!(lineage = %name, %error, "claim not prolonged"),
            }
        }
    }

    /// Waits for a place among the orders in flight.
    pub(super) async fn permit(&self) -> Permit {
        let order = Arc::clone(&self.orders).acquire_owned().await;
        Permit {
            _order: order.expect("the semaphore is never closed"),
            _share: None,
        }
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
            if lineage.claim.is_some() {
                continue;
            }
            if lineage.due.is_some_and(|due| due <= self.clock.now()) {
                // Its holder is gone.
                let _permit = self.permit().await;
                if let Ok(Some(epoch)) = self.claim(name).await {
                    return self.work(name, epoch, task).await;
                }
                continue;
            }
            return self.outcome_of(lineage).await;
        }
        Err(Failed {
            why: "another process has worked on it for too long".into(),
            next: Some(self.clock.now() + 60),
        })
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
            (None, error) => Err(Failed {
                why: error.map_or("it is not due".into(), |error| error.text.into()),
                next: lineage.due,
            }),
        }
    }

    pub(super) fn no_store(&self, error: &StoreError) -> Failed {
        tracing::warn!(%error, "the catalog failed while a certificate was worked on");
        Failed {
            why: error.to_string().into(),
            next: Some(self.clock.now() + AFTER_STORE),
        }
    }
}

pub(super) fn removed() -> Failed {
    Failed {
        why: "the lineage was removed".into(),
        next: None,
    }
}

/// A server that was killed holds its work up for so long.
pub(super) const CLAIM: Duration = Duration::from_secs(60);
/// Looks at the row while another process works on it: it takes a second or two.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(2);
/// The longest order, with DNS-01, is done by then.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// Seconds after which work goes on when the catalog has failed.
const AFTER_STORE: i64 = 10;
