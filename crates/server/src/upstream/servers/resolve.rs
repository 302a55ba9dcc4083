//! Addresses of upstream servers' names.
//!
//! Names are resolved on the background runtime, never on a worker: a task and a
//! socket exist while a question is open, none before the first name. Answers are
//! kept for their TTL, 1 s to 5 min. After it, a request waits for the next answer;
//! if that takes more than 1 s or fails, the old one is used for 5 min more.

mod ask;

use std::hash::RandomState;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, UnitWeighter};
use sekisho_certs::lock;
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::observe::metrics::Metrics;
pub(in crate::upstream) use ask::Asking;

/// Names with their addresses, shared by all workers. Bounded: the names that were
/// not asked for lately are forgotten.
pub(in crate::upstream) struct Names {
    names: Cache<Box<str>, Arc<Name>, UnitWeighter, RandomState, InUse>,
    questions: mpsc::Sender<Question>,
    /// Permits of questions that wait or are asked, by tenant.
    gate: Gate<u64>,
}

/// Reason why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unresolved {
    /// The name is not there, or has no address.
    #[error("the name leads to no address")]
    Absent,
    /// No answer.
    #[error("{0}")]
    Failed(Arc<str>),
}

/// A name, and what is known of it.
#[derive(Debug)]
struct Name {
    name: Box<str>,
    known: Mutex<Known>,
    /// Notified when an answer, or its failure, is known.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Known {
    answer: Option<Answer>,
    /// Last failure.
    failure: Option<Failure>,
    /// Tenants whose questions wait or are asked, [`MOST_ASKERS`] at most. One that asks
    /// for many names thus delays no other's question for one of them.
    askers: Vec<u64>,
}

#[derive(Debug)]
struct Failure {
    why: Arc<str>,
    /// Until when it is remembered.
    until: Instant,
    /// Tenant whose question found no permit; none if all failed.
    tenant: Option<u64>,
}

#[derive(Clone, Debug)]
struct Answer {
    /// None if the name has no address.
    ips: Arc<[IpAddr]>,
    expires: Instant,
}

/// Question for a name's addresses. Dropping it unanswered settles it as failed.
struct Question {
    name: Option<Arc<Name>>,
    /// Hash of the tenant that asks.
    tenant: u64,
    permit: Option<Permit<u64>>,
}

/// Next step of a request that wants to know a name's addresses.
enum Step {
    Take(Result<Arc<[IpAddr]>, Unresolved>),
    /// Wait until the question is settled; `ask` it first. Meanwhile the old
    /// addresses are still good.
    Wait {
        ask: bool,
        old: Option<Arc<[IpAddr]>>,
    },
}

/// Keeps names that are being asked for, with the requests that wait for them.
#[derive(Clone, Debug)]
struct InUse;

impl Names {
    /// Makes an empty cache, and what asks these name servers for it; those of
    /// `/etc/resolv.conf` if there are none.
    pub(in crate::upstream) fn new(
        servers: Vec<SocketAddr>,
        metrics: Arc<Metrics>,
    ) -> (Self, Asking) {
        let (asks, questions) = mpsc::channel(QUESTIONS);
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(NAMES)
            .weight_capacity(NAMES as u64)
            .build()
            .expect("capacity and estimate are given");
        let names = Cache::with_options(options, UnitWeighter, RandomState::new(), InUse);
        let names = Self {
            names,
            questions: asks,
            gate: Gate::new(QUESTIONS, Sharing::FewerThanLeft, 0),
        };
        let asking = Asking {
            questions,
            servers,
            metrics,
        };
        (names, asking)
    }

    /// Returns the addresses of a name, one at least, for a tenant. Waits 5 s at most.
    pub(in crate::upstream) async fn resolve(
        &self,
        name: &str,
        tenant: u64,
    ) -> Result<Arc<[IpAddr]>, Unresolved> {
        let begun = Instant::now();
        let entry = self.entry(name);
        loop {
            // Registered before the look: an answer in between still notifies.
            let mut settled = pin!(entry.settled.notified());
            settled.as_mut().enable();
            let old = match entry.step(tenant, Instant::now()) {
                Step::Take(taken) => return taken,
                Step::Wait { ask, old } => {
                    if ask {
                        self.ask(&entry, tenant);
                    }
                    old
                }
            };
            let longest = if old.is_some() { REFRESH } else { DEADLINE };
            if timeout_at(begun + longest, settled).await.is_err() {
                return old.ok_or_else(|| Unresolved::Failed(LATE.into()));
            }
        }
    }

    fn entry(&self, name: &str) -> Arc<Name> {
        if let Some(entry) = self.names.get(name) {
            return entry;
        }
        let name: Box<str> = name.into();
        let entry = self.names.get_or_insert_with(&name, || {
            let name = Name {
                name: name.clone(),
                known: Mutex::default(),
                settled: Notify::new(),
            };
            Ok::<_, std::convert::Infallible>(Arc::new(name))
        });
        entry.unwrap_or_else(|never| match never {})
    }

    /// Queues a question. One that finds no room is dropped, and thereby fails.
    fn ask(&self, name: &Arc<Name>, tenant: u64) {
        let question = Question {
            name: Some(Arc::clone(name)),
            tenant,
            permit: self.gate.try_enter(tenant),
        };
        if question.permit.is_some() {
            let _ = self.questions.try_send(question);
        }
    }
}

impl Name {
    fn step(&self, tenant: u64, now: Instant) -> Step {
        let mut known = lock(&self.known);
        let answer = known.answer.clone();
        let taken = |answer: Answer| match answer.ips.is_empty() {
            true => Step::Take(Err(Unresolved::Absent)),
            false => Step::Take(Ok(answer.ips)),
        };
        if let Some(answer) = answer.clone().filter(|answer| now < answer.expires) {
            return taken(answer);
        }
        let old = answer.filter(|old| !old.ips.is_empty() && now < old.expires + STALE);
        if let Some(failure) = &known.failure
            && now < failure.until
            && failure.tenant.is_none_or(|whose| whose == tenant)
        {
            let failed = || Step::Take(Err(Unresolved::Failed(Arc::clone(&failure.why))));
            return old.map_or_else(failed, taken);
        }
        let ask = known.askers.len() < MOST_ASKERS && !known.askers.contains(&tenant);
        if ask {
            known.askers.push(tenant);
        }
        let old = old.map(|old| old.ips);
        Step::Wait { ask, old }
    }
}

impl Question {
    fn name(&self) -> &str {
        self.name.as_ref().map_or("", |name| &name.name)
    }

    /// Keeps addresses for their TTL, or that there are none.
    fn answered(mut self, ips: &[IpAddr], ttl: Duration) {
        let ttl = match ips {
            [] => FAILURE,
            _ => ttl.clamp(LEAST_TTL, MOST_TTL),
        };
        let answer = Answer {
            ips: ips.into(),
            expires: Instant::now() + ttl,
        };
        self.settle(|known| {
            known.answer = Some(answer);
            known.failure = None;
        });
    }

    fn failed(mut self, why: &str) {
        self.fail(why, None);
    }

    fn fail(&mut self, why: &str, tenant: Option<u64>) {
        let failure = Failure {
            why: why.into(),
            until: Instant::now() + FAILURE,
            tenant,
        };
        self.settle(|known| known.failure = Some(failure));
    }

    fn settle(&mut self, change: impl FnOnce(&mut Known)) {
        if let Some(name) = self.name.take() {
            let mut known = lock(&name.known);
            change(&mut known);
            known.askers.retain(|asker| *asker != self.tenant);
            drop(known);
            name.settled.notify_waiters();
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.fail(BUSY, Some(self.tenant));
    }
}

impl Lifecycle<Box<str>, Arc<Name>> for InUse {
    type RequestState = ();

    fn is_pinned(&self, _: &Box<str>, name: &Arc<Name>) -> bool {
        Arc::strong_count(name) > 1
    }
}

/// Some 300 bytes each.
const NAMES: usize = 4096;
/// Questions that wait, or are asked. A tenant has fewer than are left.
const QUESTIONS: usize = 1024;
/// Tenants whose questions for one name wait at once; others wait for theirs.
const MOST_ASKERS: usize = 8;
/// Longest wait for the first answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Longest wait for a new answer while the old one is still good.
const REFRESH: Duration = Duration::from_secs(1);
const LEAST_TTL: Duration = Duration::from_secs(1);
const MOST_TTL: Duration = Duration::from_secs(300);
/// How long an old answer is good after its TTL, if there is no new one.
const STALE: Duration = Duration::from_secs(300);
/// How long a failure, and a name without addresses, are remembered.
const FAILURE: Duration = Duration::from_secs(5);
const LATE: &str = "no answer from the name servers within 5 s";
const BUSY: &str = "too many names are being resolved";

#[cfg(test)]
mod tests;
