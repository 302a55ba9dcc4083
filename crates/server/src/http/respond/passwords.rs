//! Passwords of requests (RFC 7617), and the bounds on their verification.

mod credentials;
mod remembered;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use foldhash::quality::RandomState;
use http::HeaderMap;
use sekisho_certs::{HostPattern, Tenant};
use sekisho_gate::{Gate, Rate, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::admission::Refused;
use crate::connection::request::RequestContext;
use crate::limits::budget::Prefix;
use crate::observe::metrics::RequestRefusal;
use crate::site::{Auth, User};
use credentials::Credentials;
use remembered::{Remembered, Tag};

/// Verifier of passwords. The server has one, for all workers.
#[derive(Debug)]
pub(super) struct Passwords {
    remembered: Arc<Remembered>,
    /// Buckets of passwords that were computed and are wrong.
    failures: Arc<Rate<Source>>,
    /// Permits of hashes by source, so that one source can't fill its tenant's queue. Only
    /// its share counts: the next two gates bound all.
    of_source: Gate<Source>,
    /// Permits of hashes by tenant, so that a tenant whose hashes take long takes its
    /// share alone.
    hashes: Gate<Tenant>,
    /// Permits of hashes that take up to 64 MiB of memory, apart from the others.
    large_hashes: Gate<Tenant>,
    /// Chooses the user whose hash is computed for a name that is none.
    hasher: RandomState,
}

/// Host and client prefix that passwords come to and from.
type Source = (HostPattern, Prefix);

/// User and password that a request claims.
struct Claim<'r> {
    credentials: Credentials,
    user: &'r User,
    /// Whether the user has the claimed name, and does not stand in for it.
    is_known: bool,
    tag: Tag,
}

impl Passwords {
    pub(super) fn new() -> Self {
        let share = || Sharing::FewerThanLeft;
        Self {
            remembered: Arc::new(Remembered::new()),
            failures: Arc::new(Rate::new(FAILURES_PERIOD)),
            of_source: Gate::new(usize::MAX, Sharing::AtMost(|_| OF_SOURCE), MAX_WAITING),
            hashes: Gate::new(permits(), share(), MAX_WAITING),
            large_hashes: Gate::new(LARGE_PERMITS, share(), MAX_WAITING),
            hasher: RandomState::default(),
        }
    }

    /// Returns the user whose name and password a request carries:
    ///
    /// 1. a pair that was right within the last minute passes at once;
    /// 2. the client's prefix has not sent too many wrong ones to the host;
    /// 3. the prefix and the tenant get a permit, in turn;
    /// 4. the password has the user's hash. A name that is none costs as much.
    ///
    /// # Errors
    /// The first that is not so. A request without a pair is refused at no cost.
    pub(super) async fn admit<'r>(
        &self,
        context: &RequestContext<'_>,
        auth: &'r Auth,
        fields: &HeaderMap,
    ) -> Result<&'r str, Refused> {
        let credentials = Credentials::of(fields).ok_or_else(|| Refused::challenge(auth))?;
        let claim = self.claim(context.tenant, auth, credentials);
        if claim.is_known && self.remembered.holds(context.tenant, &claim.tag) {
            return Ok(&claim.user.name);
        }
        // Boxed: most requests have no use for its memory.
        Box::pin(self.verify(context, auth, claim)).await
    }

    fn claim<'r>(&self, tenant: &Tenant, auth: &'r Auth, credentials: Credentials) -> Claim<'r> {
        let name = credentials.user();
        let known = auth.user(name);
        let user = known.unwrap_or_else(|| auth.stand_in(name, &self.hasher));
        let tag = self.remembered.tag(tenant, &user.hash, &credentials);
        Claim {
            credentials,
            user,
            is_known: known.is_some(),
            tag,
        }
    }

    /// Computes a hash once for all requests that claim the same pair at the same time.
    async fn verify<'r>(
        &self,
        context: &RequestContext<'_>,
        auth: &'r Auth,
        claim: Claim<'r>,
    ) -> Result<&'r str, Refused> {
        let until = Instant::now() + PATIENCE;
        let (tag, user, is_known) = (claim.tag, claim.user, claim.is_known);
        let computed = self.compute(context, auth, claim, until);
        let shared = self.remembered.share(context.tenant, &tag, computed);
        let late = || Refused::of(RequestRefusal::PasswordsLate);
        timeout_at(until, shared).await.map_err(|_| late())??;
        // A user's pair elsewhere may have the tag of a name that is none here.
        is_known
            .then_some(&*user.name)
            .ok_or_else(|| Refused::challenge(auth))
    }

    /// Computes the hash of a claimed password on a thread for blocking calls. The result
    /// counts even if the client leaves meanwhile; a client that leaves earlier is forgotten.
    async fn compute(
        &self,
        context: &RequestContext<'_>,
        auth: &Auth,
        claim: Claim<'_>,
        until: Instant,
    ) -> Result<(), Refused> {
        let late = |_| Refused::of(RequestRefusal::PasswordsLate);
        let source = (context.pattern.clone(), context.client.into());
        self.check_failures(&source)?;
        let hash = claim.user.hash.clone();
        let gate = match hash.needs_memory() {
            true => &self.large_hashes,
            false => &self.hashes,
        };
        let tenant = context.tenant.clone();
        let of_source = self.of_source.enter_until(source.clone(), until);
        let of_source = of_source.await.map_err(late)?;
        let of_tenant = gate.enter_until(tenant.clone(), until);
        let of_tenant = of_tenant.await.map_err(late)?;
        // Meanwhile other passwords may have been wrong, or this one right for a client that
        // left.
        if claim.is_known && self.remembered.holds(&tenant, &claim.tag) {
            return Ok(());
        }
        self.check_failures(&source)?;
        let (remembered, failures) = (Arc::clone(&self.remembered), Arc::clone(&self.failures));
        let (credentials, is_known, tag) = (claim.credentials, claim.is_known, claim.tag);
        let computed = spawn_blocking(move || {
            let is_right = hash.verify(credentials.password()) && is_known;
            match is_right {
                true => remembered.add(&tenant, tag),
                false => failures.charge(source, FAILURES),
            }
            drop((of_tenant, of_source));
            is_right
        });
        match computed.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::challenge(auth)),
            Err(_) => Err(Refused::of(RequestRefusal::PasswordsLate)),
        }
    }

    fn check_failures(&self, source: &Source) -> Result<(), Refused> {
        let checked = self.failures.check(source, FAILURES);
        checked.map_err(|wait| Refused::until(RequestRefusal::PasswordRate, wait))
    }
}

/// Threads that compute hashes at most, all of which may be of one worker.
pub(crate) fn threads() -> usize {
    permits() + LARGE_PERMITS
}

/// Hashes that are computed at once: half of the cores are left to the workers. Of two
/// permits, one tenant has one.
fn permits() -> usize {
    available_parallelism().map_or(2, |cores| (cores.get() / 2).max(2))
}

/// Hashes of argon2id that are computed at once, of 64 MiB each.
const LARGE_PERMITS: usize = 2;
/// Hashes of one client prefix at one host that are computed, or wait for their tenant's
/// permit.
const OF_SOURCE: usize = 10;
/// Requests that wait for a permit.
const MAX_WAITING: usize = 1024;
/// Longest wait for a permit and the hash.
const PATIENCE: Duration = Duration::from_secs(10);
/// Wrong passwords of a client prefix at one host that are taken at once. Then one is taken
/// each time that a tenth of [`FAILURES_PERIOD`] has passed. Those that are computed side by
/// side may be more by then, and delay the next.
const FAILURES: NonZeroU32 = NonZeroU32::new(10).expect("not 0");
const FAILURES_PERIOD: Duration = Duration::from_secs(100);
