//! Names that would end the renewal of the others of their certificate.
//!
//! A certificate may be for the names of many customers. One that has left lets each order
//! fail. Before the deadline everything is tried again; from then on the names that the
//! last failures blamed are left out. Their hosts keep the old certificate, with a lineage
//! of their own that tells why.

use sekisho_certs::store::Write;
use sekisho_certs::{CredentialId, Fence, HostPattern, Lineage, LineageName, Secret, StoreError};

use super::attempt::Attempt;
use super::failure::Failure;
use crate::schedule::{self, Seed, after_failure, failed_turn};

impl Attempt<'_> {
    /// Notes whom a failure for the names blames. Those that were left out stay noted.
    pub(super) fn note_blamed(&mut self, failure: &Failure) {
        if self.current.is_none() {
            self.state.refusals = self.state.refusals.saturating_add(1);
        }
        let blamed = failure.blamed(&self.names);
        let blamed = blamed.iter().chain(&self.left_out);
        self.state.blamed = blamed.map(|name| name.as_str().to_owned()).collect();
    }

    /// Leaves those names out of the order of a late renewal which the last failures blamed
    /// by name: else all names of the certificate would expire for one.
    pub(super) fn leave_out_blamed(&mut self) {
        let now = self.now();
        let is_late = self.validity().is_some_and(|it| it.deadline() <= now);
        let is_blamed = |name: &HostPattern| {
            let mut blamed = self.state.blamed.iter();
            blamed.any(|one| one == name.as_str())
        };
        let (blamed, rest): (Vec<_>, Vec<_>) = self.names.iter().cloned().partition(is_blamed);
        if is_late && !blamed.is_empty() && !rest.is_empty() {
            (self.names, self.left_out) = (rest, blamed);
        }
    }

    /// Returns the write of the lineage of the names that were left out, if there are any.
    pub(super) async fn put_left_out(&self) -> Result<Option<Write<Secret>>, StoreError> {
        let new = Lineage::new(self.lineage.tenant.clone(), self.left_out.iter().cloned());
        let (Some(mut new), Some(old)) = (new, self.lineage.credential) else {
            return Ok(None);
        };
        new.name = self.free_name(new.name, old).await?;
        let (now, validity) = (self.now(), self.validity());
        let seed = Seed::of(new.name.as_str());
        let kind = schedule::Failure::Names;
        let next = after_failure(now, kind, self.lineage.attempts, validity, seed);
        new.wishes = self.lineage.wishes.clone();
        new.credential = Some(old);
        new.issued_by.clone_from(&self.lineage.issued_by);
        new.due = Some(next.due);
        new.turn = failed_turn(next.due, next.attempts, validity);
        new.attempts = next.attempts;
        new.last_error.clone_from(&self.lineage.last_error);
        let (lineage, left_out) = (&self.lineage.name, &self.left_out);
        tracing::warn!(%lineage, ?left_out, "names that fail are left out of the certificate: it expires soon");
        Ok(Some(Write::PutLineage(new, Fence::Absent)))
    }

    /// Returns the first of these names that no lineage has: `name`, and two that the old
    /// certificate gives.
    async fn free_name(
        &self,
        name: LineageName,
        old: CredentialId,
    ) -> Result<LineageName, StoreError> {
        let parse = |text: String| LineageName::parse(&text).expect("an id is a name");
        let others = [old.to_string(), format!("{old}-{}", self.now())].map(parse);
        let [second, last] = others;
        let names = [name, second];
        let taken = self.issuer.sealer.catalog().lineages(&names).await?;
        let is_free = |name: &LineageName| taken.iter().all(|one| one.name != *name);
        Ok(names.into_iter().find(is_free).unwrap_or(last))
    }
}
