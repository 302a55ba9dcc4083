use sekisho_certs::HostPattern;
use sekisho_issuance::quota::{Bucket, Kind, Limit, Quotas, Share};
use sekisho_issuance::schedule::{Seed, Validity, Window, renewal_due, renewal_turn};

use super::DAY;

/// Lineage as the catalog has it. Seconds count from the year's start.
pub(super) struct Host {
    pub(super) seed: Seed,
    /// Validity of the certificate; none before the first.
    pub(super) valid: Option<Validity>,
    /// True if the CA suggests a window, which it does for what it issued itself.
    pub(super) ari: bool,
    pub(super) due: i64,
    pub(super) turn: i64,
    pub(super) attempts: u32,
    /// Bucket of the exact set of names.
    pub(super) duplicates: Bucket,
}

impl Host {
    /// Makes the host with this number, which waits for its first certificate.
    pub(super) fn new(number: usize, now: i64, turn: i64) -> Self {
        Self {
            seed: Seed::of(&format!("h{number}.example")),
            valid: None,
            ari: false,
            due: now,
            turn,
            attempts: 0,
            duplicates: Bucket::default(),
        }
    }

    /// Stores a certificate and plans its renewal.
    pub(super) fn store(&mut self, now: i64, valid: Validity, ari: bool) {
        (self.valid, self.ari, self.attempts) = (Some(valid), ari, 0);
        self.due = renewal_due(now, valid, self.window(), self.seed);
        self.turn = renewal_turn(valid);
    }

    pub(super) fn kind(&self, now: i64) -> Kind {
        match (self.valid, self.window()) {
            (None, _) => Kind::First,
            (Some(_), Some(window)) if window.contains(now) => Kind::Replaces,
            (Some(_), _) => Kind::Renewal,
        }
    }

    /// Returns the window that Let's Encrypt suggests: a hundredth of the lifetime
    /// before and after the earliest time (`RenewalInfoSimple` in Boulder).
    fn window(&self) -> Option<Window> {
        let valid = self.valid.filter(|_| self.ari)?;
        let margin = valid.lifetime() / 100;
        let ideal = valid.not_before + earliest(valid.lifetime());
        Some(Window {
            start: ideal - margin,
            end: ideal + margin,
        })
    }

    pub(super) fn share(&self, now: i64) -> Share {
        match self.valid {
            Some(valid) if now < valid.deadline() => Share::Unreserved,
            _ => Share::Whole,
        }
    }
}

/// Returns the age at which renewal begins.
pub(super) fn earliest(lifetime: i64) -> i64 {
    if lifetime < 10 * DAY {
        lifetime / 2
    } else {
        lifetime / 3 * 2
    }
}

/// Limits that orders take from, read once from [`Quotas::charges`], which makes
/// keys for each order. Registered domains are left out: each host has its own.
pub(super) struct Charged {
    first: Limits,
    renewal: Limits,
    replaces: Limits,
}

/// Limits that one order takes from.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) orders: Option<Limit>,
    pub(super) duplicates: Option<Limit>,
}

impl Charged {
    pub(super) fn of(quotas: &Quotas) -> Self {
        let names = HostPattern::parse("h0.example")
            .into_iter()
            .collect::<Vec<_>>();
        let limits = |kind| {
            let charges = quotas.charges(kind, &names);
            let of = |prefix| {
                charges
                    .iter()
                    .find(|charge| charge.key.starts_with(prefix))
                    .map(|charge| charge.limit)
            };
            Limits {
                orders: of("orders"),
                duplicates: of("names/"),
            }
        };
        Self {
            first: limits(Kind::First),
            renewal: limits(Kind::Renewal),
            replaces: limits(Kind::Replaces),
        }
    }

    pub(super) fn by(&self, kind: Kind) -> Limits {
        match kind {
            Kind::First => self.first,
            Kind::Renewal => self.renewal,
            Kind::Replaces => self.replaces,
        }
    }
}
