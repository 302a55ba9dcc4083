//! Leases of the state.

use std::time::Duration;

use super::state::State;
use sekisho_certs::store::Lease;

impl State {
    pub(super) fn lease(
        &mut self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now_ms: i64,
    ) -> Option<Lease> {
        self.leases
            .retain(|_, (_, lease)| lease.expires_ms > now_ms);
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let token = match self.leases.get(name) {
            Some((other, _)) if other != holder => return None,
            Some((_, lease)) => lease.token,
            None => {
                self.token += 1;
                self.token
            }
        };
        let lease = Lease {
            token,
            expires_ms: now_ms.saturating_add(ttl_ms),
        };
        self.leases
            .insert(name.to_owned(), (holder.to_owned(), lease.clone()));
        Some(lease)
    }

    pub(super) fn release(&mut self, name: &str, holder: &str) {
        self.leases
            .retain(|other, (by, _)| other != name || by != holder);
    }
}
