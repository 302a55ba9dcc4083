//! Counts secrets by the key that seals them.

use std::collections::BTreeMap;
use std::fmt;

use indicatif::HumanCount;
use sekisho_certs::seal::{SealedSecret, Sealer, Walk};
use serde::Serialize;

use crate::terminal::failure::Result;
use crate::terminal::progress;

/// Counts of secrets by the key that seals them.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<u32, Sealings>);

/// Counts of secrets under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sealings {
    credentials: u64,
    documents: u64,
    orders: u64,
}

impl Tally {
    /// Counts all secrets of a catalog, a page at a time, with a progress bar.
    pub(super) async fn of(sealer: &Sealer) -> Result<Self> {
        let bar = progress::bar(|| None);
        let (mut tally, mut walk) = (Self::default(), Walk::default());
        loop {
            let page = sealer.secrets(&mut walk, PAGE).await?;
            if page.is_empty() {
                bar.finish_and_clear();
                return Ok(tally);
            }
            tally.add(&page);
            bar.inc(page.len() as u64);
        }
    }

    /// Adds a page.
    pub(super) fn add(&mut self, page: &[SealedSecret]) {
        for secret in page {
            let sealings = self.0.entry(secret.key()).or_default();
            match secret {
                SealedSecret::Credential(_) => sealings.credentials += 1,
                SealedSecret::Document(_) => sealings.documents += 1,
                SealedSecret::Order(..) => sealings.orders += 1,
            }
        }
    }

    pub(super) fn under(&self, key: u32) -> Sealings {
        self.0.get(&key).copied().unwrap_or_default()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}

impl Sealings {
    pub(super) fn are_none(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Sealings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [credentials, documents, orders] =
            [self.credentials, self.documents, self.orders].map(HumanCount);
        write!(
            f,
            "{credentials} credentials, {documents} documents, {orders} orders"
        )
    }
}

/// Secrets of a page. Sealing a page again is one transaction, which must delay
/// other writers little.
pub(super) const PAGE: usize = 100;
