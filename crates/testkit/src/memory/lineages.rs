//! Lineages of the state, and their claims.

use std::time::Duration;

use super::state::State;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::lineage::{Able, Claim, Fence, Lineage, LineageName, ToClaim, UNTAKEN};
use sekisho_certs::store::Result;
use sekisho_certs::{HostName, HostPattern};

impl State {
    /// Returns the lineages that are asked for by name, with claims that hold.
    pub(super) fn lineages(
        &self,
        now_ms: i64,
        is_asked: impl Fn(&Lineage<SealedBytes>) -> bool,
    ) -> Vec<Lineage<SealedBytes>> {
        let mut found: Vec<_> = self.lineages.values().cloned().collect();
        found.retain(is_asked);
        for one in &mut found {
            one.claim = one.claim.take().filter(|claim| claim.until_ms > now_ms);
        }
        found
    }

    pub(super) fn claim(
        &mut self,
        which: &ToClaim,
        holder: &str,
        ttl: Duration,
        now_ms: i64,
    ) -> Vec<(LineageName, Claim)> {
        let now = now_ms.div_euclid(1000);
        let ours = |one: &Lineage<_>| one.claim.as_ref().is_none_or(|by| by.holder == holder);
        let mut found = self.lineages(now_ms, |one| match which {
            ToClaim::Due { able, .. } => one
                .due
                .is_some_and(|due| due <= now - UNTAKEN || due <= now && suffices(able, one)),
            ToClaim::Named(names) => names.contains(&one.name),
        });
        found.retain(|one| match which {
            ToClaim::Due { .. } => one.claim.is_none(),
            ToClaim::Named(_) => ours(one),
        });
        found.sort_by(|one, other| (one.turn, &one.name).cmp(&(other.turn, &other.name)));
        if let ToClaim::Due { limit, .. } = which {
            found.truncate(*limit);
        }
        self.token += 1;
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let claims = found.into_iter().map(|one| {
            let claim = Claim {
                holder: holder.to_owned(),
                until_ms: now_ms.saturating_add(ttl_ms),
                epoch: one.claim.map_or(self.token, |own| own.epoch),
            };
            (one.name, claim)
        });
        let claims: Vec<_> = claims.collect();
        for (name, claim) in &claims {
            if let Some(lineage) = self.lineages.get_mut(name) {
                lineage.claim = Some(claim.clone());
            }
        }
        claims
    }

    pub(super) fn put_lineage(
        &mut self,
        mut lineage: Lineage<SealedBytes>,
        fence: Fence,
        now_ms: i64,
    ) -> Result<()> {
        let held = self.held(&lineage.name, now_ms);
        fence.check(&lineage.name, epoch(held.as_ref()))?;
        lineage.claim = lineage.claim.and(held.flatten());
        self.lineages.insert(lineage.name.clone(), lineage);
        Ok(())
    }

    pub(super) fn remove_lineage(
        &mut self,
        name: &LineageName,
        fence: Fence,
        now_ms: i64,
    ) -> Result<()> {
        fence.check(name, epoch(self.held(name, now_ms).as_ref()))?;
        self.lineages.remove(name);
        Ok(())
    }

    /// Returns the claim that holds, if there is one; none without the lineage.
    fn held(&self, name: &LineageName, now_ms: i64) -> Option<Option<Claim>> {
        let claim = self.lineages.get(name)?.claim.clone();
        Some(claim.filter(|claim| claim.until_ms > now_ms))
    }
}

fn epoch(held: Option<&Option<Claim>>) -> Option<Option<u64>> {
    held.map(|claim| claim.as_ref().map(|claim| claim.epoch))
}

/// Tells whether a holder can get the certificate of a lineage.
fn suffices(able: &Able, lineage: &Lineage<SealedBytes>) -> bool {
    let wish = lineage.wishes.ca.as_ref();
    let is_single = |name: &HostPattern| name.wildcard_parent().is_none();
    let is_zoned = |name: &HostPattern| {
        let name = name.wildcard_parent().unwrap_or(name.as_str());
        let holds = |zone: &HostName| zone.holds(name);
        able.zones.iter().any(holds)
    };
    wish.is_none_or(|ca| able.cas.contains(ca))
        && (able.everywhere
            || able.without_dns && lineage.names.iter().all(is_single)
            || lineage.names.iter().all(is_zoned))
}
