//! Issuance of a certificate that is not stored: step 4 of a lookup.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::read::{MAX_READS, Missing};
use super::singleflight::{Listed, Progress, STORED, Wait, begin};
use super::{LookupError, Outcome};
use crate::cache::Tried;
use crate::metrics::InGauge;
use crate::obtain::Obtained;
use crate::record::Tenant;

/// Call of [`Obtain`](crate::Obtain) for all who want the certificate of a name.
pub(super) struct Obtaining<V: Send + Sync + 'static> {
    /// Place of the read that led here.
    pub(super) listed: Listed<V>,
    pub(super) missing: Missing<V>,
    /// Number of calls before this one for those who wait.
    pub(super) before: usize,
}

impl<V: Send + Sync + 'static> Obtaining<V> {
    /// Calls in a task of its own, unless the call answers at its first poll: then nobody
    /// waits for it.
    pub(super) fn begin(self) -> Progress<V> {
        let (lookup, tenant) = (Arc::clone(&self.listed.lookup), self.tenant());
        let mut run = Box::pin(self.run());
        if let Some(progress) = (&mut run).now_or_never() {
            return progress;
        }
        let (complete, call) = begin();
        tokio::spawn(async move {
            let progress = run.await;
            lookup.tell(complete, (progress, None));
        });
        let outcome = Wait::on(call);
        Progress::Obtaining { tenant, outcome }
    }

    async fn run(mut self) -> Progress<V> {
        let lookup = &self.listed.lookup;
        let obtained = {
            let _obtaining = InGauge::new(&lookup.counts.obtaining);
            let record = self.missing.host.as_ref().map(|host| &host.record);
            lookup.obtain.obtain(&self.listed.name, record).await
        };
        match self.end(obtained) {
            Some(outcome) => Progress::Ended(outcome),
            None => self.read_again(),
        }
    }

    /// Remembers why no certificate was obtained, and lets nobody join any more. Returns
    /// none if the name must be read again.
    fn end(&mut self, obtained: Obtained) -> Option<Outcome<V>> {
        let Listed { lookup, name, .. } = &self.listed;
        let missing = &mut self.missing;
        let failed = match obtained {
            Obtained::Stored => None,
            Obtained::Refused { retry_after } => {
                (missing.tried, missing.holds) = (Tried::Refused, retry_after);
                Some(Outcome::Absent(missing.reason))
            }
            Obtained::Failed { why, retry_after } => {
                (missing.tried, missing.holds) = (Tried::Failed, Some(retry_after));
                Some(Outcome::Failed(LookupError::NotObtained(why)))
            }
        };
        let recent = lookup.recent();
        let outcome = match (failed, lookup.remembered(name, STORED)) {
            // A caller that must not issue has read it meanwhile.
            (Some(_), Some((found @ Outcome::Found(_), _))) => Some(found),
            (failed, _) => failed.filter(|_| lookup.note_absence(&recent, name, missing)),
        };
        let outcome = outcome.or_else(|| {
            let is_last = self.before + 1 == MAX_READS;
            is_last.then(|| lookup.stale_if_error(name, LookupError::BrokenOff))
        });
        if outcome.is_some() {
            self.listed.leave(&recent);
        }
        outcome
    }

    /// Has the name read again for those who wait.
    fn read_again(self) -> Progress<V> {
        let Listed { lookup, name, call } = &self.listed;
        let mut flights = lookup.flights();
        flights.end(name, call);
        let outcome = lookup.fly(flights, name, Some(self.before + 1), |_| ());
        let tenant = self.tenant();
        Progress::Obtaining { tenant, outcome }
    }

    fn tenant(&self) -> Option<Tenant> {
        let host = self.missing.host.as_ref()?;
        Some(host.record.tenant.clone())
    }
}
