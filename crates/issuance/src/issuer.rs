//! Gets certificates: for first visitors, for commands, and before they expire.
//!
//! A lineage is worked on by one process at a time, which holds its claim:
//!
//! 1. [`OnDemand`] (first access), [`Issuer::issue`] (commands) or
//!    [`Issuer::renew_due`] takes up a lineage; whoever comes later joins;
//! 2. `attempt` orders at the first CA that is worth trying, with the first
//!    challenge that can prove the names: `order` has the steps;
//! 3. `outcome` writes the certificate with its hosts, or the failure with the time of
//!    the next attempt, in one batch that is fenced by the claim.
//!
//! All that a step needs is in the lineage's row before the step: any process goes on
//! where another one ended.
//!
//! # The way of a certificate
//!
//! ```text
//!  crates/issuance/src
//!  ───────────────────
//!  issuer/first_access.rs   a visitor waits    issuer.rs `issue`   a command
//!    ├─ admission.rs          may this name?     │
//!    ├─ `OnDemand`: to the thread of orders    issuer/renewal.rs   what is due, first
//!    ├─ the lineage is not due: its last error   │                 certificates too
//!    └─ else its row is written                  │
//!    ▼                                           ▼
//!  issuer/working.rs        one work per lineage in this process: others join
//!  issuer/activity.rs       what is under way; a process that is replaced renews no more
//!  issuer/claimed.rs        the claim, prolonged; or the wait for another server
//!    ▼
//!  issuer/attempt.rs        which names, CAs (authorities.rs) and challenges (solver.rs)
//!    ├─ issuer/awaits.rs      CNAMEs that are to be set first, if a command waits for them
//!    ├─ issuer/in_use.rs      names that hosts still need
//!    ├─ issuer/kind.rs        what the CA's limits allow: quota.rs, ledger.rs
//!    └─ issuer/order.rs     the steps at a CA (acme.rs), as its account (accounts.rs)
//!         │  issuer/under_way.rs  what is saved: the order's URL, then its key
//!         └─ issuer/prove.rs      answers of challenges, in the catalog before the CA is
//!              │                    told; removed afterwards
//!              └► any server shows them: connection/handshake/challenge.rs, http.rs
//!    ▼
//!  issuer/outcome.rs        certificate, hosts and lineage in one batch, fenced by the
//!                           claim; or the failure, and when it is tried again: schedule.rs
//! ```
//!
//! The batch is a change like any other: the feed carries it to all servers. The visitor
//! does not wait for that: the load reads the store again.

mod activity;
mod attempt;
mod awaits;
mod claimed;
mod failure;
mod first_access;
mod held;
mod in_use;
mod kind;
mod left_out;
mod order;
mod outcome;
mod prove;
mod refused;
mod renewal;
mod revoke;
mod turns;
mod under_way;
mod working;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use sekisho_certs::metrics::Registry;
use sekisho_certs::store::Write;
use sekisho_certs::{
    Able, Challenges, Claim, Clock, CredentialId, Fence, HostPattern, Lineage, LineageName,
    LogLimiter, Sealer, Secret, StoreError, Tenant,
};
use sekisho_gate::{Gate, Sharing};
use tokio::sync::{Notify, Semaphore, watch};

use crate::accounts::Accounts;
use crate::acme::{Account, KeyKind};
use crate::admission::Admission;
use crate::authorities::{Authorities, Authority};
use crate::holder;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::settings::{SettingError, Settings};
use crate::solver::Solvers;
use crate::solver::dns01::Waiting;

use activity::Activity;
use attempt::{Task, When};
use claimed::CLAIM;
use failure::Failure;
pub use first_access::OnDemand;
use renewal::UNCOUNTED;
use turns::Turns;
pub use under_way::{end_of, left_of, wait_for_cname};
use working::Working;

/// Issuer of one process. Its connections belong to the runtime that polls it.
#[derive(Debug)]
pub struct Issuer {
    sealer: Sealer,
    challenges: Arc<Challenges>,
    clock: Clock,
    authorities: Authorities,
    accounts: Accounts,
    ledger: Ledger,
    admission: Admission,
    solvers: Solvers,
    /// What the two before have, for claims.
    able: Able,
    key: KeyKind,
    reuse_key: bool,
    /// A permit is a key that takes long to make.
    slow_keys: Semaphore,
    /// A permit is an order in flight.
    orders: Arc<Semaphore>,
    most_orders: usize,
    /// Permits of orders for first visitors.
    first_orders: Gate<Tenant>,
    /// Permits of first visits that something is done for. Names without a record share
    /// those of one tenant: anybody can make up such names.
    visits: Gate<Option<Tenant>>,
    working: Working,
    activity: Activity,
    turns: Turns,
    /// Told when there is something due.
    due: Notify,
    /// Limit of log lines about names that admission refuses.
    refusals: LogLimiter,
    /// Told when a CA that was passed over works again.
    opened: Notify,
    /// Lineages of the catalog, as last counted; [`UNCOUNTED`] before that.
    lineages: AtomicU64,
    /// Name of this process among the holders of claims.
    holder: String,
    /// Milliseconds by which the store's clock is ahead, as the last claim told.
    ahead_ms: AtomicI64,
    metrics: Metrics,
}

/// Certificate that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Its credential.
    pub credential: CredentialId,
    /// Names that it covers.
    pub names: Vec<HostPattern>,
    /// End of its validity, Unix seconds.
    pub not_after: i64,
}

/// Attempt without a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCertificate {
    /// The reason, for the operator.
    pub why: Arc<str>,
    /// Unix second of the next attempt; none if nobody will try again by itself.
    pub next: Option<i64>,
    /// Setting that a CA or name server refused, if this process asked it.
    pub setting: Option<Arc<SettingError>>,
}

impl NoCertificate {
    fn new(why: impl Into<Arc<str>>, next: Option<i64>) -> Self {
        Self {
            why: why.into(),
            next,
            setting: None,
        }
    }
}

impl Issuer {
    /// Makes an issuer that writes to the sealer's catalog. Reads roots; sends nothing.
    ///
    /// # Errors
    /// Names the key that can't be used.
    pub fn new(
        settings: Settings,
        sealer: Sealer,
        challenges: Arc<Challenges>,
        clock: Clock,
    ) -> Result<Self, SettingError> {
        let (contact, agree) = (settings.contact, settings.agree);
        let authorities = Authorities::new(settings.cas)?;
        let solvers = Solvers::new(settings.solvers, settings.dns, settings.served);
        let cas = authorities.all().iter();
        let able = Able {
            cas: cas.map(|one| one.ca.name().to_owned()).collect(),
            without_dns: solvers.without_dns(),
            zones: solvers.zones(),
            everywhere: solvers.served().is_some(),
        };
        Ok(Self {
            authorities,
            able,
            accounts: Accounts::new(sealer.clone(), contact, agree, clock.clone()),
            ledger: Ledger::new(sealer.clone(), clock.clone()),
            admission: Admission::new(settings.admission)?,
            solvers,
            key: settings.key,
            reuse_key: settings.reuse_key,
            slow_keys: Semaphore::new(SLOW_KEYS),
            orders: Arc::new(Semaphore::new(settings.orders)),
            most_orders: settings.orders,
            first_orders: Gate::new(settings.orders, Sharing::FewerThanLeft, 0),
            visits: Gate::new(VISITS, Sharing::AtMost(|_| VISITS / 8), 0),
            working: Working::default(),
            activity: Activity::default(),
            turns: Turns::default(),
            due: Notify::new(),
            refusals: LogLimiter::default(),
            opened: Notify::new(),
            lineages: AtomicU64::new(UNCOUNTED),
            holder: holder::fresh(),
            ahead_ms: AtomicI64::new(0),
            metrics: Metrics::default(),
            sealer,
            challenges,
            clock,
        })
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        self.authorities.register(registry);
    }

    /// Returns the store's time, seconds since the Unix epoch, as far as the last claim told
    /// it: due dates are written and read by all servers, and this one's clock may be wrong.
    fn now(&self) -> i64 {
        // Relaxed: the difference guards no other data.
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        (self.clock.now_ms() + ahead).div_euclid(1000)
    }

    /// Notes the store's time of a claim that was taken just now.
    fn note_time(&self, claim: &Claim) {
        let length = i64::try_from(CLAIM.as_millis()).expect("a minute");
        let ahead = claim.until_ms - length - self.clock.now_ms();
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }

    /// Stores a lineage unless there is one by its name; tells whether it was stored.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn add(&self, lineage: Lineage<Secret>) -> Result<bool, StoreError> {
        let put = Write::PutLineage(lineage, Fence::Absent);
        self.sealer.try_write(vec![put]).await
    }

    /// Gets a certificate for a lineage now, whether it is due or not. Earlier failures
    /// are forgotten: if this attempt fails, too, the next one comes soon. Waits for a
    /// process that works on it already, and for a permit to order.
    ///
    /// # Errors
    /// [`NoCertificate`]; the lineage says the same.
    pub async fn issue(self: &Arc<Self>, name: &LineageName) -> Result<Issued, NoCertificate> {
        self.count_once().await;
        let before = self
            .version(name)
            .await
            .map_err(|error| self.no_store(&error))?;
        for _ in 0..MAX_LOOKS {
            let joined = match self.working.join(name) {
                Some(joined) => joined,
                None => self.start(name, None, Task::new(When::Now), self.permit().await),
            };
            let outcome = joined.outcome().await;
            let after = self.version(name).await;
            if outcome.is_err() || after.is_ok_and(|after| after != before) {
                return outcome;
            }
            // The joined work has only looked whether it is due.
        }
        let why = "others work on it without a new certificate";
        Err(NoCertificate::new(why, None))
    }

    /// Stops renewal for good, in a process that another one replaces: [`Self::renew_due`]
    /// returns, and no lineage is claimed that no visitor waits for. Work under way goes on
    /// to its end. So do first visits: they come from handshakes, and over plain HTTP from
    /// connections that are not leaving. A process that accepts no connection has none after
    /// its handshake timeout.
    ///
    /// A process that ends before [`Self::ended`] leaves a claim for up to 60 s. Until then
    /// the lineage waits; the next process then goes on with the same order and key.
    pub fn stop_claiming(&self) {
        self.activity.stop();
    }

    /// Waits until nothing is under way after [`Self::stop_claiming`]: then the process can
    /// end without making another one wait. A DNS-01 order may take 10 minutes.
    pub async fn ended(&self) {
        self.activity.ended().await;
    }

    /// Follows the waits for records of DNS-01 that take long, the last one of which is
    /// told at most each 10 s.
    #[must_use]
    pub fn dns_waits(&self) -> watch::Receiver<Option<Waiting>> {
        self.solvers.waits()
    }

    /// Returns the version of the certificate in use, which each renewal changes.
    async fn version(&self, name: &LineageName) -> Result<Option<u64>, StoreError> {
        let lineage = self.lineage(name).await?;
        let ids: Vec<_> = lineage.and_then(|one| one.credential).into_iter().collect();
        let current = self.sealer.catalog().credentials(&ids).await?.pop();
        Ok(current.map(|current| current.version))
    }

    /// Returns the account at a CA.
    async fn account(&self, authority: &Authority) -> Result<Account, Failure> {
        let external = authority.options.external.as_ref();
        Ok(self.accounts.get(&authority.ca, external).await?)
    }

    /// Reads a lineage and opens its order.
    async fn lineage(&self, name: &LineageName) -> Result<Option<Lineage<Secret>>, StoreError> {
        let names = std::slice::from_ref(name);
        let found = self.sealer.catalog().lineages(names).await?.pop();
        let Some(found) = found else {
            return Ok(None);
        };
        match self.sealer.open_lineage(found.clone()).await {
            // A new order replaces one that can't be read.
            Err(StoreError::Corrupt(why)) => {
                tracing::warn!(lineage = %name, %why, "its order is lost");
                Ok(Some(found.split_order().0))
            }
            opened => opened.map(Some),
        }
    }
}

/// Keys that take long, at once: each takes a core for up to seconds.
const SLOW_KEYS: usize = 2;
/// Tries of a command that meets others at work.
const MAX_LOOKS: usize = 3;
/// First visits at once, those that wait for another server's order too. A task has
/// some KiB.
const VISITS: usize = 4096;
