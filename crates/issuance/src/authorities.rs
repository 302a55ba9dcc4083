//! The configured CAs, in the order of preference, with fail-over.
//!
//! A CA that fails is passed over: for 10 s, then twice as long with each further
//! failure, up to 10 min or 1/30 of the shortest lifetime that was renewed there, and
//! never shorter than its `Retry-After`. After that a
//! single order tries it, and only a success opens it for all. Each process
//! remembers this for itself.

mod gauge;
mod outage;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use sekisho_certs::lock;
use sekisho_certs::metrics::Registry;
use tokio::time::{Instant, timeout};

use crate::acme::{self, Ca, Fault, Meta};
use crate::settings::{CaOptions, SettingError};
use gauge::PassedOver;
use outage::{BUSY, Outage, is_busy};

/// The configured CAs, in the order of preference; at least one.
#[derive(Debug)]
pub struct Authorities(Vec<Arc<Authority>>);

/// CA with what is particular to it.
#[derive(Debug)]
pub struct Authority {
    /// Client of the CA.
    pub ca: Ca,
    /// Options of the CA in the configuration.
    pub options: CaOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Description that the CA gave last.
    meta: Option<Meta>,
    outage: Option<Outage>,
    /// The shortest lifetime of a certificate that was to be renewed.
    lifetime: Option<Duration>,
    /// Order that met a busy CA last, and when.
    busy: Option<(Box<str>, Instant)>,
}

/// Why there is no CA to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAuthority {
    /// The configuration has no CA of that name.
    #[error("the CA {name:?} is not configured; there is {known}")]
    Unknown {
        /// Name that was wished for.
        name: String,
        /// Names of the configured CAs.
        known: String,
    },
    /// No CA is permitted.
    #[error("the CAA records allow no certificate from {0}")]
    Forbidden(String),
    /// All of them failed a short time ago.
    #[error("{why}")]
    PassedOver {
        /// Each CA with the time until it is asked again, and its failure.
        why: String,
        /// Time until the first of them is asked again.
        retry_after: Duration,
    },
}

impl Authorities {
    /// Reads the roots; sends nothing.
    ///
    /// # Errors
    /// Names the setting that can't be used.
    pub fn new(options: Vec<CaOptions>) -> Result<Self, SettingError> {
        let mut all: Vec<Arc<Authority>> = Vec::with_capacity(options.len());
        for one in options {
            let new = Authority {
                ca: Ca::new(&one.ca)?,
                options: one,
                state: Mutex::default(),
            };
            let (name, directory) = (new.ca.name(), new.ca.directory());
            let same = |other: &&Arc<Authority>| {
                other.ca.directory() == directory || other.ca.name() == name
            };
            if let Some(other) = all.iter().find(same) {
                let why = format!("{:?} and {name:?} are the same CA", other.ca.name());
                return Err(SettingError::new("cas", why));
            }
            all.push(Arc::new(new));
        }
        match all.is_empty() {
            true => Err(SettingError::new("cas", "name at least one CA")),
            false => Ok(Self(all)),
        }
    }

    /// Returns all CAs, in the order of preference.
    #[must_use]
    pub fn all(&self) -> &[Arc<Authority>] {
        &self.0
    }

    /// Returns the CAs that are worth asking now, in the order of preference, at least
    /// one; [`Authorities::begin`] says whether an order may. With a `wish`, the name of a CA, only that one counts. `permits` says which
    /// CAs may issue, by what is known of them: a CA that was never asked is not left
    /// out, since it checks CAA records itself.
    ///
    /// # Errors
    /// [`NoAuthority`].
    pub fn candidates(
        &self,
        wish: Option<&str>,
        permits: impl Fn(&Meta) -> bool,
    ) -> Result<Vec<Arc<Authority>>, NoAuthority> {
        let wished = self.wished(wish)?;
        let permitted = wished.iter().filter(|one| {
            let state = lock(&one.state);
            state.meta.as_ref().is_none_or(&permits)
        });
        let permitted: Vec<_> = permitted.collect();
        if permitted.is_empty() {
            return Err(NoAuthority::Forbidden(names(wished)));
        }
        let now = Instant::now();
        let worth_trying = permitted.iter().filter(|one| one.is_worth_asking(now));
        let worth_trying: Vec<_> = worth_trying.map(|one| Arc::clone(one)).collect();
        match worth_trying.is_empty() {
            true => Err(passed_over(&permitted, now)),
            false => Ok(worth_trying),
        }
    }

    /// Begins with an order at a CA. After a failure one order at a time may try the CA:
    /// call it just before the CA is asked, since the others then pass it over.
    ///
    /// # Errors
    /// [`NoAuthority::PassedOver`].
    pub fn begin(&self, authority: &Arc<Authority>) -> Result<(), NoAuthority> {
        let now = Instant::now();
        let mut state = lock(&authority.state);
        let outage = state.outage.as_mut();
        let may_begin = outage.is_none_or(|outage| outage.is_over_for_one(now));
        drop(state);
        match may_begin {
            true => Ok(()),
            false => Err(passed_over(&[authority], now)),
        }
    }

    /// Returns the CA with this directory: of an order that is under way, or of a
    /// certificate that is to be revoked.
    #[must_use]
    pub fn by_directory(&self, url: &str) -> Option<&Arc<Authority>> {
        self.0.iter().find(|one| one.ca.directory() == url)
    }

    /// Returns what the CAs say of themselves; empty unless it is known of all, because
    /// a CAA record may allow the very CA that is not known. Waits for 5 s at most, if one
    /// was not asked within an hour and is not passed over.
    pub async fn metas(&self) -> Vec<Meta> {
        let metas = join_all(self.0.iter().map(|one| self.meta(one))).await;
        let known: Option<Vec<_>> = metas.into_iter().collect();
        known.unwrap_or_default()
    }

    /// Passes the CA over if this error is of a kind that concerns all orders: no
    /// answer, one that says that the CA is out of order or asks for fewer requests, or
    /// a refusal of the account. An error that one order alone may cause says nothing
    /// about the CA: else a customer could shut it off for all. Tells whether the CA is
    /// passed over.
    pub fn failed(&self, authority: &Authority, error: &acme::Error) -> bool {
        if !concerns_all(error) {
            return false;
        }
        let now = Instant::now();
        let mut state = lock(&authority.state);
        let is_new = state
            .outage
            .as_ref()
            .is_none_or(|outage| outage.is_over(now));
        let longest = state.lifetime.map_or(Duration::MAX, |it| it / SHARE);
        let longest = longest.max(SHORTEST);
        let outage = Outage::after(state.outage.take(), now, error, longest);
        // The orders in flight meet the same failure.
        if is_new {
            let again_in_s = outage.pause(now).as_secs();
            tracing::warn!(ca = authority.ca.name(), %error, again_in_s, "CA failed: passing it over");
        }
        state.outage = Some(outage);
        true
    }

    /// Notes a failure as [`Authorities::failed`] does, of the order of this lineage. A
    /// 503 with `Retry-After` is a pause of the one order: the CA wants fewer requests.
    /// A 503 concerns all once another order meets one within a minute.
    pub fn failed_in(&self, authority: &Authority, error: &acme::Error, lineage: &str) -> bool {
        if is_busy(error) {
            let now = Instant::now();
            let mut state = lock(&authority.state);
            let before = state.busy.replace((lineage.into(), now));
            let is_other = |(other, at): (Box<str>, Instant)| {
                *other != *lineage && now.duration_since(at) < BUSY
            };
            if state.outage.is_none() && !before.is_some_and(is_other) {
                return false;
            }
        }
        self.failed(authority, error)
    }

    /// Notes that the CA did what it was asked. Tells whether it was passed over.
    pub fn succeeded(&self, authority: &Authority) -> bool {
        let mut state = lock(&authority.state);
        state.busy = None;
        let was_out = state.outage.take().is_some();
        if was_out {
            tracing::info!(ca = authority.ca.name(), "CA works again");
        }
        was_out
    }

    /// Returns the time until the first CA is asked again; none if one may be asked now.
    /// With a `wish`, the name of a CA, only that one counts.
    #[must_use]
    pub fn opens_in(&self, wish: Option<&str>) -> Option<Duration> {
        let now = Instant::now();
        let wished = self.wished(wish).ok()?;
        let pauses = wished.iter().map(|one| one.pause(now));
        pauses.min().filter(|pause| !pause.is_zero())
    }

    /// Registers a gauge of each CA.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(PassedOver(self.0.clone())));
    }

    fn wished(&self, wish: Option<&str>) -> Result<&[Arc<Authority>], NoAuthority> {
        let Some(name) = wish else {
            return Ok(&self.0);
        };
        let index = self.0.iter().position(|one| one.ca.name() == name);
        let index = index.ok_or_else(|| NoAuthority::Unknown {
            name: name.to_owned(),
            known: names(&self.0),
        })?;
        Ok(&self.0[index..=index])
    }

    /// Returns what the CA says, or what it said before it failed.
    async fn meta(&self, authority: &Authority) -> Option<Meta> {
        if authority.is_worth_asking(Instant::now()) {
            match timeout(META, authority.ca.meta()).await {
                Ok(Ok(meta)) => lock(&authority.state).meta = Some(meta),
                Ok(Err(error)) => drop(self.failed(authority, &error)),
                Err(_) => drop(self.failed(authority, &late(&authority.ca))),
            }
        }
        lock(&authority.state).meta.clone()
    }
}

impl Authority {
    /// Tells whether no failure of the CA stands that concerns all orders.
    #[must_use]
    pub fn works(&self) -> bool {
        lock(&self.state).outage.is_none()
    }

    /// Tells whether the CA has not failed, or so long ago that it may work again.
    #[must_use]
    pub fn is_worth_asking(&self, now: Instant) -> bool {
        self.pause(now).is_zero()
    }

    /// Notes the lifetime of a certificate that is to be renewed here. A pause of the CA
    /// takes a small share of it.
    pub fn renews(&self, lifetime: Duration) {
        let mut state = lock(&self.state);
        state.lifetime = Some(state.lifetime.map_or(lifetime, |it| it.min(lifetime)));
    }

    fn pause(&self, now: Instant) -> Duration {
        let state = lock(&self.state);
        let outage = state.outage.as_ref();
        outage.map_or(Duration::ZERO, |it| it.pause(now))
    }
}

/// Tells whether an error concerns all orders at the CA.
fn concerns_all(error: &acme::Error) -> bool {
    match &error.fault {
        Fault::Unreachable(_) | Fault::Untrusted(_) => true,
        Fault::Setting { key, .. } => ["agree", "eab_id", "eab_key"].contains(key),
        Fault::Refused {
            status, problem, ..
        } => {
            // 404 and 410 are about one order.
            let is_none_of_acme = problem.is_none() && !matches!(status, 404 | 410);
            let is_account = error.fault.is_one_of(&ACCOUNT);
            *status >= 500 || error.is_rate_limit() || is_none_of_acme || is_account
        }
        _ => false,
    }
}

fn late(ca: &Ca) -> acme::Error {
    let late = format!("no directory within {} s", META.as_secs());
    acme::Error {
        ca: ca.name().into(),
        step: "reading its directory".into(),
        fault: Fault::Unreachable(late),
    }
}

fn passed_over(all: &[&Arc<Authority>], now: Instant) -> NoAuthority {
    let mut retry_after = Duration::MAX;
    let mut each = Vec::with_capacity(all.len());
    for one in all {
        // Another task's success may have ended the outage since it was looked at.
        let pause = one.pause(now);
        let state = lock(&one.state);
        let fault = state.outage.as_ref().map_or("", |it| it.why.as_str());
        retry_after = retry_after.min(pause);
        each.push(format!(
            "{} (again in {} s): {fault}",
            one.ca.name(),
            pause.as_secs()
        ));
    }
    NoAuthority::PassedOver {
        why: format!("{NO_CA}: {}", each.join("; ")),
        retry_after,
    }
}

fn names(all: &[Arc<Authority>]) -> String {
    let names: Vec<_> = all.iter().map(|one| one.ca.name()).collect();
    names.join(", ")
}

/// Part of a lifetime that a pause takes at most, as for lineages.
const SHARE: u32 = 30;
/// The shortest of these pauses.
const SHORTEST: Duration = Duration::from_secs(5);
/// Begin of the reason where all CAs are passed over.
pub(crate) const NO_CA: &str = "no CA is worth asking now";
/// Wait for a directory: a visitor waits 20 s for the decision and the order.
const META: Duration = Duration::from_secs(5);
/// Types of problems (RFC 8555, section 6.7) with which a CA refuses an account.
const ACCOUNT: [&str; 4] = [
    "accountDoesNotExist",
    "externalAccountRequired",
    "unauthorized",
    "userActionRequired",
];
