//! Limits of a CA as token buckets, taken by all servers.
//!
//! Pure functions: the catalog keeps the state of each bucket ([`Bucket`]) under
//! [`Charge::key`] until the bucket is full again.
//!
//! Let's Encrypt's limits (<https://letsencrypt.org/docs/rate-limits/>, as of
//! 2026-08-05), and which orders count:
//!
//! | limit | first certificate | same names, no `replaces` | `replaces` in its ARI window |
//! | --- | --- | --- | --- |
//! | new orders per account: 300 per 3 h | counts | | |
//! | certificates per registered domain: 50 per 7 days | counts | | |
//! | certificates per exact set of names: 5 per 7 days | counts | counts | |
//! | failed validations per name and account: 5 per hour | counts | counts | |
//!
//! The CA counts orders when they are made, certificates when they are issued. All are
//! taken with the order, lest many at once pass one check. What an order has taken for
//! its certificate is given back if it ends without one.
//!
//! An order with `replaces` outside the window is one without it: after an outage
//! that outlasts the window, renewals count as duplicates. Limits of new accounts
//! are not kept: a cluster has one account per CA.

mod bucket;

pub use bucket::{Bucket, Limit, RetryAt, Share};

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use sekisho_certs::HostPattern;

use crate::names::registered_domain;

/// Limits of a CA; none means without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// New orders of the account.
    pub orders: Option<Limit>,
    /// Certificates of a registered domain.
    pub domains: Option<Limit>,
    /// Certificates of exactly the same names.
    pub duplicates: Option<Limit>,
    /// Failed validations of a name.
    pub failures: Option<Limit>,
    /// True if the CA exempts renewals, as the table of this module says. Else each order
    /// counts as a first one.
    pub exempts_renewals: bool,
}

/// Kind of an order, as limits tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For names that had no certificate of exactly this set.
    First,
    /// For exactly the names of an earlier certificate.
    Renewal,
    /// With `replaces` (RFC 9773, section 5), inside the window that the CA
    /// suggests.
    Replaces,
}

/// Token that an order takes: of which bucket, under which limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Key of the bucket, unique per CA.
    pub key: String,
    /// Limit of the bucket.
    pub limit: Limit,
}

/// Limit of a CA, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// New orders of the account.
    Orders,
    /// Certificates of a registered domain.
    Domains,
    /// Certificates of exactly the same names.
    Duplicates,
    /// Failed validations of a name.
    Failures,
}

impl Quotas {
    /// Returns Let's Encrypt's limits.
    #[must_use]
    pub const fn letsencrypt() -> Self {
        Self {
            orders: Limit::new(300, 3 * HOUR),
            domains: Limit::new(50, 7 * DAY),
            duplicates: Limit::new(5, 7 * DAY),
            failures: Limit::new(5, HOUR),
            exempts_renewals: true,
        }
    }

    /// Returns the limits of Let's Encrypt's staging environment.
    #[must_use]
    pub const fn letsencrypt_staging() -> Self {
        Self {
            orders: Limit::new(1_500, 3 * HOUR),
            domains: Limit::new(30_000, 1),
            duplicates: Limit::new(30_000, 7 * DAY),
            failures: Limit::new(200, HOUR),
            exempts_renewals: true,
        }
    }

    /// Returns what an order takes, each bucket once: all of them or none. What
    /// is likeliest to refuse comes first.
    #[must_use]
    pub fn charges(&self, kind: Kind, names: &[HostPattern]) -> Vec<Charge> {
        let mut charges = Vec::new();
        if self.counted(kind) == Kind::First {
            charges.extend(self.charge(Named::Orders, ""));
        }
        charges.extend(self.certificate_charges(kind, names));
        charges
    }

    /// Returns the part of [`Quotas::charges`] that a CA counts once it has issued: an
    /// order that ends without a certificate gives it back.
    #[must_use]
    pub fn certificate_charges(&self, kind: Kind, names: &[HostPattern]) -> Vec<Charge> {
        let kind = self.counted(kind);
        let mut charges = Vec::new();
        if kind == Kind::First {
            let domains: BTreeSet<_> = names.iter().map(registered_domain).collect();
            charges.extend(
                domains
                    .into_iter()
                    .filter_map(|domain| self.charge(Named::Domains, domain)),
            );
        }
        if kind != Kind::Replaces {
            charges.extend(self.charge(Named::Duplicates, &set_of(names)));
        }
        charges
    }

    /// Returns what a failed validation of `name` takes by [`Limit::charge`]. The
    /// bucket must have a token before an order of any kind but
    /// [`Kind::Replaces`] for the name.
    #[must_use]
    pub fn failure(&self, name: &HostPattern) -> Option<Charge> {
        self.charge(Named::Failures, name.as_str())
    }

    /// Returns the buckets that a 429 for these names closes
    /// ([`Limit::close_until`]), by the limit that its problem document names. A
    /// 429 that names none, or one that is not kept here, closes the orders of the
    /// account. Nothing is returned if those are not limited: pass the CA over.
    #[must_use]
    pub fn closed_by(&self, detail: &str, names: &[HostPattern]) -> Vec<Charge> {
        let named = Named::by(detail);
        let quotes = |text: &&str| detail.contains(&format!("\"{text}\""));
        let closed = |name: &HostPattern| match named {
            Some(Named::Domains) => Some(registered_domain(name))
                .filter(quotes)
                .and_then(|domain| self.charge(Named::Domains, domain)),
            Some(Named::Failures) => Some(name.wildcard_parent().unwrap_or(name.as_str()))
                .filter(quotes)
                .and_then(|_| self.failure(name)),
            Some(Named::Duplicates) => self.charge(Named::Duplicates, &set_of(names)),
            Some(Named::Orders) | None => None,
        };
        let mut charges: Vec<_> = names.iter().filter_map(closed).collect();
        charges.dedup();
        if charges.is_empty() {
            charges.extend(self.charge(Named::Orders, ""));
        }
        charges
    }

    /// Returns the kind that an order counts as at this CA.
    fn counted(&self, kind: Kind) -> Kind {
        match self.exempts_renewals {
            true => kind,
            false => Kind::First,
        }
    }

    fn charge(&self, named: Named, of: &str) -> Option<Charge> {
        let (prefix, limit) = match named {
            Named::Orders => ("orders", self.orders),
            Named::Domains => ("domain/", self.domains),
            Named::Duplicates => ("names/", self.duplicates),
            Named::Failures => ("failed/", self.failures),
        };
        limit.map(|limit| Charge {
            key: format!("{prefix}{of}"),
            limit,
        })
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::First, Self::Renewal, Self::Replaces];

    /// Returns the word that an order is kept with.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Renewal => "renewal",
            Self::Replaces => "replaces",
        }
    }
}

impl Named {
    /// Reads which limit a problem document with the type `rateLimited` names
    /// (RFC 8555, section 6.6), in the words of Boulder, Let's Encrypt's CA.
    #[must_use]
    pub fn by(detail: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|(words, _)| detail.contains(words))
            .map(|(_, named)| *named)
    }
}

/// Returns the key of a set of names, whatever their order.
fn set_of(names: &[HostPattern]) -> String {
    let names: BTreeSet<_> = names.iter().map(HostPattern::as_str).collect();
    let joined = names.into_iter().collect::<Vec<_>>().join(",");
    HEXLOWER.encode(&digest(&SHA256, joined.as_bytes()).as_ref()[..16])
}

const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;
/// Words of `ratelimits/limiter.go` in Boulder.
const WORDS: [(&str, Named); 4] = [
    ("too many new orders", Named::Orders),
    ("for this exact set of", Named::Duplicates),
    ("too many certificates", Named::Domains),
    ("too many failed authorizations", Named::Failures),
];

#[cfg(test)]
mod tests;
