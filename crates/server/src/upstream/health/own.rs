//! Ejections of a server for single sites.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sekisho_certs::metrics::InGauge;

use super::ejection::{Ejection, Trial};
use super::{Site, Standing};

/// Ejections of a server for sites that it failed, at most [`MOST`]. A site without
/// an entry has no failures.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// True if there are entries: most requests take no lock. Relaxed: a request may
    /// see the entries of a moment ago.
    has_any: AtomicBool,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    site: Site,
    ejection: Ejection,
    /// Time of the last failure.
    failed: u64,
}

impl Own {
    pub(super) fn standing(&self, site: Site, now: u64) -> Standing {
        self.of(site, |ejection| ejection.standing(now))
            .unwrap_or(Standing::Healthy)
    }

    /// Claims the right to use the server. See [`Ejection::claim`].
    pub(super) fn claim(&self, site: Site, now: u64) -> Option<Trial> {
        self.of(site, |ejection| ejection.claim(now))
            .unwrap_or(Some(Trial::default()))
    }

    pub(super) fn give_back(&self, site: Site, trial: Trial, now: u64) {
        self.of(site, |ejection| ejection.give_back(trial, now));
    }

    /// Forgets the failures of a site; returns true if that ends an ejection.
    pub(super) fn succeeded(&self, site: Site) -> bool {
        if !self.has_any.load(Ordering::Relaxed) {
            return false;
        }
        let mut entries = self.lock();
        let Some(index) = entries.iter().position(|entry| entry.site == site) else {
            return false;
        };
        let entry = entries.swap_remove(index);
        self.has_any.store(!entries.is_empty(), Ordering::Relaxed);
        entry.ejection.succeeded()
    }

    /// Notes a failure of a site. See [`Ejection::failed`].
    pub(super) fn failed(
        &self,
        site: Site,
        now: u64,
        jitter: u64,
        count: impl FnOnce() -> InGauge,
    ) -> Option<Duration> {
        let mut entries = self.lock();
        let index = entries.iter().position(|entry| entry.site == site);
        let index = index.unwrap_or_else(|| {
            make_room(&mut entries, site.tenant);
            entries.push(Entry {
                site,
                ejection: Ejection::default(),
                failed: now,
            });
            entries.len() - 1
        });
        self.has_any.store(true, Ordering::Relaxed);
        entries[index].failed = now;
        entries[index].ejection.failed(now, jitter, count)
    }

    fn of<R>(&self, site: Site, ask: impl FnOnce(&Ejection) -> R) -> Option<R> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.site == site)?;
        Some(ask(&entry.ejection))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the entry that failed longest ago: of the tenant if it has its share of
/// entries, else of all.
fn make_room(entries: &mut Vec<Entry>, tenant: u64) {
    let of_tenant = |entry: &Entry| entry.site.tenant == tenant;
    let has_share = entries.iter().filter(|entry| of_tenant(entry)).count() >= OF_TENANT;
    if !has_share && entries.len() < MOST {
        return;
    }
    let oldest = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| !has_share || of_tenant(entry))
        .min_by_key(|(_, entry)| entry.failed)
        .map(|(index, _)| index);
    if let Some(oldest) = oldest {
        entries.swap_remove(oldest);
    }
}

/// Entries of one server, some 100 bytes each.
const MOST: usize = 64;
/// Entries of one tenant.
const OF_TENANT: usize = 8;

#[cfg(test)]
mod tests {
    use sekisho_certs::metrics::Gauge;

    use super::*;

    fn site(tenant: u64, settings: u64) -> Site {
        Site { tenant, settings }
    }

    fn eject(own: &Own, site: Site) {
        for _ in 0..5 {
            own.failed(site, 1, 0, || InGauge::new(&Gauge::default()));
        }
    }

    fn is_ejected(own: &Own, site: Site) -> bool {
        matches!(own.standing(site, 2), Standing::Ejected(_))
    }

    #[test]
    fn a_site_is_ejected_alone() {
        let own = Own::default();
        eject(&own, site(1, 1));
        assert!(is_ejected(&own, site(1, 1)));
        assert!(!is_ejected(&own, site(1, 2)));
        assert!(!is_ejected(&own, site(2, 1)));
        assert!(!own.succeeded(site(2, 1)));
        assert!(own.succeeded(site(1, 1)));
        assert!(!is_ejected(&own, site(1, 1)));
    }

    #[test]
    fn a_tenant_with_many_settings_displaces_its_own_entries() {
        let own = Own::default();
        eject(&own, site(1, 1));
        for settings in 0..1_000 {
            eject(&own, site(2, settings));
        }
        assert!(is_ejected(&own, site(1, 1)));
        assert_eq!(own.lock().len(), 1 + OF_TENANT);
        for tenant in 3..1_000 {
            eject(&own, site(tenant, 0));
        }
        assert_eq!(own.lock().len(), MOST);
    }
}
