//! Passwords of requests (RFC 7617), and the bounds on their verification.

mod credentials;
mod remembered;

use std::num::NonZeroU32;
use std::thread::available_parallelism;
use std::time::Duration;

use foldhash::quality::RandomState;
use http::HeaderMap;
use sekisho_certs::Tenant;
use sekisho_gate::{Gate, Permit, Sharing};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::admission::Refused;
use crate::connection::request::RequestContext;
use crate::limits::rates::{Rates, Scope};
use crate::observe::metrics::RequestRefusal;
use crate::site::{Auth, User};
use credentials::Credentials;
use remembered::{Remembered, Tag};

/// Verifier of passwords. The server has one, for all workers.
#[derive(Debug)]
pub(super) struct Passwords {
    remembered: Remembered,
    /// Buckets of wrong passwords, by host and client prefix.
    failures: Rates,
    /// Permits of hashes by tenant, so that a tenant whose hashes take long takes its
    /// share alone.
    hashes: Gate<Tenant>,
    /// Permits of hashes that take up to 64 MiB of memory, apart from the others.
    large_hashes: Gate<Tenant>,
    /// Chooses the user whose hash is computed for a name that is none.
    hasher: RandomState,
}

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
            remembered: Remembered::new(),
            failures: Rates::over(FAILURES_PERIOD),
            hashes: Gate::new(permits(), share(), MAX_WAITING),
            large_hashes: Gate::new(LARGE_PERMITS, share(), MAX_WAITING),
            hasher: RandomState::default(),
        }
    }

    /// Returns the user whose name and password a request carries:
    ///
    /// 1. a pair that was right within the last minute passes at once;
    /// 2. the client's prefix has not sent too many wrong ones to the host;
    /// 3. the tenant gets a permit, in turn;
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

    async fn compute(
        &self,
        context: &RequestContext<'_>,
        auth: &Auth,
        claim: Claim<'_>,
        until: Instant,
    ) -> Result<(), Refused> {
        let scope = Scope {
            pattern: context.pattern,
            rule: 0,
        };
        let client = Some(context.client.into());
        // Taken before the hash is computed: a client that leaves has spent it.
        let taken = self.failures.take(scope, client, FAILURES);
        taken.map_err(|wait| Refused::until(RequestRefusal::PasswordRate, wait))?;
        let is_right = self.is_right(context.tenant, claim, until).await;
        if is_right != Some(false) {
            self.failures.give_back(scope, client, FAILURES);
        }
        match is_right {
            Some(true) => Ok(()),
            Some(false) => Err(Refused::challenge(auth)),
            None => Err(Refused::of(RequestRefusal::PasswordsLate)),
        }
    }

    /// Computes the hash of a claimed password on a thread for blocking calls; none if
    /// the tenant gets no permit in time.
    async fn is_right(&self, tenant: &Tenant, claim: Claim<'_>, until: Instant) -> Option<bool> {
        let Claim {
            credentials,
            user,
            is_known,
            ..
        } = claim;
        let hash = user.hash.clone();
        let gate = match hash.needs_memory() {
            true => &self.large_hashes,
            false => &self.hashes,
        };
        let permit: Permit<Tenant> = gate.enter_until(tenant.clone(), until).await.ok()?;
        let computed = spawn_blocking(move || {
            let is_right = hash.verify(credentials.password());
            drop(permit);
            is_right
        });
        Some(computed.await.ok()? && is_known)
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
/// Requests that wait for a permit.
const MAX_WAITING: usize = 1024;
/// Longest wait for a permit and the hash.
const PATIENCE: Duration = Duration::from_secs(10);
/// Wrong passwords of a client prefix at one host that are taken at once. Then one is taken
/// each time that a tenth of [`FAILURES_PERIOD`] has passed.
const FAILURES: NonZeroU32 = NonZeroU32::new(10).expect("not 0");
const FAILURES_PERIOD: Duration = Duration::from_secs(100);
