//! Admission: names that may have a certificate on first access.
//!
//! [`Admission::decide`] asks all configured conditions, in this order; each must
//! say yes:
//!
//! 1. the pattern to order, the record's or the name: no label that CAs refuse, no
//!    public suffix. Below a wildcard record only the wildcard itself is ordered:
//!    scanners of CT logs make endless names;
//! 2. `allow` and `deny`, the operator's lists;
//! 3. `first_access`: the name has a record, or the ask URL decides;
//! 4. the ask URL (`?domain=NAME`; 2xx yes, 4xx no);
//! 5. `addresses`: the name leads to one of them;
//! 6. CAA (RFC 8659): one of the CAs is allowed. Not asked if it is known that none of
//!    them names itself (`caaIdentities` of RFC 8555): no record could exclude it.
//!
//! 4 to 6 go over the network, each with a deadline of 5 s. Their answers are
//! remembered: a decided one 60 s, a failure 10 s.

mod addresses;
mod ask;
mod caa;
mod decision;
mod memory;
mod rules;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sekisho_certs::{HostName, HostPattern, HostRecord, Obtained, Tenant};
use sekisho_gate::{Denied, Gate, Sharing};
use tokio::time::{Instant, timeout};

pub use caa::Issuers;
pub use decision::{Allowed, Decision};
pub use rules::orderable;

use crate::acme::Meta;
use crate::names::registered_domain;
use crate::setting_error::SettingError;
use ask::Ask;
use decision::No;
use memory::{Granted, Memory};
use rules::Lists;
use sekisho_dns::Resolver;

/// Conditions of a certificate on first access. The default has none but a record.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names that may have one.
    pub first_access: FirstAccess,
    /// URL that is asked, `http://` or `https://`.
    pub ask: Option<String>,
    /// File with the roots, PEM, that the ask URL is verified with; none means the
    /// system's.
    pub ask_ca: Option<PathBuf>,
    /// Addresses of which a name must lead to one; empty: not checked.
    pub addresses: Vec<IpAddr>,
    /// True if CAA records must allow the CA.
    pub caa: bool,
    /// Patterns that may have one; empty: all. A wildcard stands for itself and
    /// for all names one label below it.
    pub allow: Vec<HostPattern>,
    /// Patterns that may not, whatever else holds.
    pub deny: Vec<HostPattern>,
    /// Recursive name servers; empty: those of the system.
    pub resolvers: Vec<SocketAddr>,
}

/// Names that may have a certificate on first access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAccess {
    /// Names with a record.
    #[default]
    Hosts,
    /// Names without a record too, if the ask URL admits them.
    Ask,
    /// Only what was ordered gets a certificate.
    Off,
}

/// Conditions with their answers. Connections belong to the runtime that polls
/// [`Admission::decide`].
#[derive(Debug)]
pub struct Admission {
    first_access: FirstAccess,
    lists: Lists,
    ask: Option<Ask>,
    addresses: Vec<IpAddr>,
    caa: bool,
    resolver: Resolver,
    /// Patterns that are examined, by tenant; all names without a record share one.
    examined: Gate<Option<Tenant>>,
    /// Patterns of names without a record that are examined, by registered domain.
    unrecorded: Gate<Box<str>>,
    memory: Memory,
}

impl Admission {
    /// Reads the roots of the ask URL, and the system's name servers; sends
    /// nothing.
    ///
    /// # Errors
    /// [`SettingError`] names what can't be used.
    pub fn new(settings: Settings) -> Result<Self, SettingError> {
        let ask = settings.ask.as_deref();
        let ask = ask.map(|url| Ask::new(url, settings.ask_ca.as_deref()));
        let ask = ask.transpose()?;
        if settings.first_access == FirstAccess::Ask && ask.is_none() {
            let why = "first_access = \"ask\" needs a URL";
            return Err(SettingError::new("ask", why));
        }
        Ok(Self {
            first_access: settings.first_access,
            lists: Lists {
                allow: settings.allow.into_iter().collect(),
                deny: settings.deny.into_iter().collect(),
            },
            ask,
            addresses: settings.addresses,
            caa: settings.caa,
            resolver: Resolver::new(&settings.resolvers),
            examined: Gate::new(EXAMINED, Sharing::FewerThanLeft, MAX_WAITING),
            unrecorded: Gate::new(EXAMINED / 2, Sharing::FewerThanLeft, MAX_WAITING),
            memory: Memory::new(MEMORY),
        })
    }

    /// Refuses `name` at once, if nobody need be asked for that: unknown names are
    /// many. None if [`Admission::decide`] has to look further, and for names with a
    /// record, whose operator is told the reason.
    #[must_use]
    pub fn refuses(&self, name: &HostName, record: Option<&HostRecord>) -> Option<Obtained> {
        if record.is_some() && self.first_access != FirstAccess::Off {
            return None;
        }
        let pattern = record.map_or_else(|| name.into(), |record| record.pattern.clone());
        let refused = self.rules(&pattern, record).is_err();
        refused.then_some(Obtained::Refused { retry_after: None })
    }

    /// Decides whether `name` may have a certificate from one of `cas`, the
    /// directories that are known; if none is, the CAs are left to check CAA.
    ///
    /// `record` is the store's own, fresh answer for the name, exact or the
    /// wildcard above, and not disabled; none if the store answered that there is
    /// no such host. The caller never decides after a failure of the store or by an
    /// old copy: the name would look like one without a record, and a store failure
    /// is never a reason to issue.
    ///
    /// Takes at most 20 s. Names below one wildcard record share one decision.
    pub async fn decide(
        &self,
        name: &HostName,
        record: Option<&HostRecord>,
        cas: &[Meta],
    ) -> Decision {
        let pattern = record.map_or_else(|| name.into(), |record| record.pattern.clone());
        if let Err(why) = self.rules(&pattern, record) {
            return Decision::never(why);
        }
        let is_heeded = cas.is_empty() || cas.iter().any(|ca| !ca.caa_identities.is_empty());
        let tenant = record.map(|record| record.tenant.clone());
        let examine = async || self.examine(&pattern, tenant, is_heeded).await;
        let remembered = self.memory.answer(&pattern, examine).await;
        let retry_after = remembered.ends.saturating_duration_since(Instant::now());
        let granted = match &remembered.answer {
            Ok(granted) => granted,
            Err(no) => return no.decision(retry_after),
        };
        let permits = |ca: &Meta| granted.issuers.permits(&ca.caa_identities);
        if !cas.is_empty() && !cas.iter().any(permits) {
            return Decision::Refused {
                why: format!("the CAA records of {pattern} allow none of the CAs").into(),
                retry_after: Some(retry_after),
            };
        }
        let named = || granted.tenant.clone();
        let owner = || named().map_or_else(|| Tenant::parse(registered_domain(&pattern)), Ok);
        match record.map_or_else(owner, |record| Ok(record.tenant.clone())) {
            Err(why) => Decision::never(format!("its registered domain is no tenant: {why}")),
            Ok(tenant) => Decision::Allowed(Allowed {
                issuers: granted.issuers.clone(),
                tenant,
                pattern,
            }),
        }
    }

    /// Checks what needs no network.
    fn rules(&self, pattern: &HostPattern, record: Option<&HostRecord>) -> Result<(), String> {
        orderable(pattern)?;
        self.lists.check(pattern)?;
        match self.first_access {
            FirstAccess::Off => Err("first_access is off".into()),
            FirstAccess::Hosts if record.is_none() => Err(format!("{pattern} has no record")),
            FirstAccess::Hosts | FirstAccess::Ask => Ok(()),
        }
    }

    /// Asks the conditions that go over the network, on behalf of a tenant; CAA if a CA
    /// heeds it.
    async fn examine(
        &self,
        pattern: &HostPattern,
        tenant: Option<Tenant>,
        is_heeded: bool,
    ) -> Result<Granted, No> {
        let permits = async {
            let of_domain = match &tenant {
                Some(_) => None,
                None => Some(
                    self.unrecorded
                        .enter(registered_domain(pattern).into())
                        .await?,
                ),
            };
            Ok((of_domain, self.examined.enter(tenant).await?))
        };
        let full = |_: Denied| No::Failed("too many names wait".into());
        let permits = async { permits.await.map_err(full) };
        let _permits = within("waiting for a permit", permits).await?;
        let tenant = match &self.ask {
            Some(ask) => within("ask", ask.check(pattern)).await?,
            None => None,
        };
        if !self.addresses.is_empty() {
            let here = addresses::check(&self.resolver, &self.addresses, pattern);
            within("addresses", here).await?;
        }
        let issuers = match self.caa && is_heeded {
            true => within("CAA", caa::issuers(&self.resolver, pattern)).await?,
            false => Issuers::Any,
        };
        Ok(Granted { tenant, issuers })
    }
}

/// Bounds a condition by the deadline.
async fn within<T>(what: &str, asked: impl Future<Output = Result<T, No>>) -> Result<T, No> {
    let answer = timeout(DEADLINE, asked).await;
    let answer = answer.unwrap_or_else(|_| {
        let late = format!("no answer within {} s", DEADLINE.as_secs());
        Err(No::Failed(late.into()))
    });
    answer.map_err(|no| match no {
        No::Refused(why) => No::Refused(format!("{what}: {why}").into()),
        No::Failed(why) => No::Failed(format!("{what}: {why}").into()),
    })
}

/// For each condition: a handshake waits 20 s for the decision and the order.
const DEADLINE: Duration = Duration::from_secs(5);
/// Patterns that are examined at once, with two sockets each at most. A tenant has fewer
/// than are left: name servers of one that hang hold up no other. Nor do those of one
/// registered domain hold up other names without a record, which have half of them.
const EXAMINED: usize = 64;
/// Patterns that wait to be examined.
const MAX_WAITING: usize = 4096;
/// Bytes of all answers that are remembered: some 5,000 of common length.
const MEMORY: usize = 2 << 20;
