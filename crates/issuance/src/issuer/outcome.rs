//! Outcome of an attempt, as the catalog gets it.

use std::sync::Arc;

use sekisho_certs::credential::{Credential, StoredCredential};
use sekisho_certs::lineage::UNTAKEN;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{CredentialId, Fence, HostPattern, HostRecord, LastError, Secret, StoreError};
use tokio::time::sleep;

use super::attempt::{Attempt, RETRY};
use super::failure::{BEFORE, Failure, cause};
use super::working::Outcome;
use super::{Issued, NoCertificate};
use crate::authorities::Authority;
use crate::schedule::{
    self, Seed, Validity, after_failure, first_again, outage, renewal_due, renewal_turn, turn_after,
};

impl Attempt<'_> {
    /// Stores a certificate of this CA: with the hosts that it is for, in one batch.
    pub(super) async fn issued(&mut self, credential: Credential, ca: &Authority) -> Outcome {
        let stored = credential.into_stored(CredentialId::fresh(&self.issuer.clock));
        let stored = stored.into_sealable();
        match self.store(&stored, ca).await {
            Ok(credential) => {
                let (lineage, names) = (&self.lineage.name, self.names.len());
                let renewal = self.current.is_some();
                tracing::info!(%lineage, names, %credential, renewal, "certificate stored");
                match renewal {
                    true => self.issuer.metrics.renewed.inc(),
                    false => self.issuer.metrics.issued.inc(),
                };
                Ok(Issued {
                    credential,
                    names: self.names.clone(),
                    not_after: stored.not_after,
                })
            }
            Err(failure) => self.failed(failure).await,
        }
    }

    /// Stores a failure with the time of the next attempt. A lineage that nothing uses
    /// any more is removed.
    pub(super) async fn failed(&mut self, failure: Failure) -> Outcome {
        let (why, now) = (self.why(&failure), self.now());
        let setting = failure.setting(&self.issuer.solvers, &self.names);
        if matches!(failure, Failure::Unused) {
            self.abandon_order().await;
            self.clean_up().await;
        } else {
            failure.count(&self.issuer.metrics);
        }
        let (write, next) = match failure {
            Failure::Store(error) => return Err(self.issuer.no_store(&error)),
            Failure::ClaimLost => return Err(NoCertificate::new(why, None)),
            // With TXT records that are still to be removed, the lineage stays.
            Failure::Unused if self.state.records.is_empty() => (self.removal(), None),
            failure => self.failure(&failure, &why, now),
        };
        let lineage = &self.lineage.name;
        match next {
            _ if matches!(write, Write::RemoveLineage(..)) => {
                tracing::info!(%lineage, %why, "lineage removed");
            }
            Some(next) => {
                let setting = setting.as_ref().map(|one| format!("[acme] {}", one.key));
                let again_in_s = next - now;
                tracing::warn!(%lineage, %why, again_in_s, setting, "no certificate");
            }
            None => {}
        }
        self.held.end().await;
        if let Err(error) = self.write(vec![write]).await {
            tracing::warn!(%lineage, %error, "the failure was not stored");
        }
        Err(NoCertificate {
            why,
            next,
            setting: setting.map(Arc::new),
        })
    }

    /// Returns the reason in words. Beside a closed limit stands the failure before it,
    /// which tells what to mend.
    fn why(&self, failure: &Failure) -> Arc<str> {
        let before = self.lineage.last_error.as_ref();
        match before.and_then(|error| cause(&error.text)) {
            Some(cause) if matches!(failure, Failure::Closed { .. }) => {
                format!("{failure}{BEFORE}{cause}").into()
            }
            _ => failure.to_string().into(),
        }
    }

    /// Puts the next certificate off. Nothing fails that is not due. `why` is what must
    /// happen first, if something must.
    pub(super) async fn postponed(&mut self, due: i64, why: Option<LastError>) -> Outcome {
        let current = self.current.as_ref().map(|one| (one.id, one.not_after));
        self.lineage.due = Some(due);
        (self.lineage.attempts, self.lineage.last_error) = (0, why);
        self.lineage.order = self.state.to_secret();
        self.lineage.claim = None;
        let put = Write::PutLineage(self.lineage.clone(), Fence::Epoch(self.held.epoch));
        self.held.end().await;
        let written = self.write(vec![put]).await;
        if let (Ok(()), Some(why)) = (&written, &self.lineage.last_error) {
            return Err(NoCertificate::new(why.text.as_str(), Some(due)));
        }
        match (written, current) {
            (Ok(()), Some((credential, not_after))) => Ok(Issued {
                credential,
                names: self.lineage.names.clone(),
                not_after,
            }),
            (Err(failure), _) => self.failed(failure).await,
            (Ok(()), None) => self.failed(Failure::Unused).await,
        }
    }

    /// Writes the batch. Hosts that others write meanwhile are read again.
    async fn store(
        &mut self,
        stored: &StoredCredential<Secret>,
        ca: &Authority,
    ) -> Result<CredentialId, Failure> {
        self.held.end().await;
        for _ in 0..MAX_TRIES {
            let mut writes = Vec::new();
            let id = self.put_credential(stored.clone(), &mut writes).await?;
            writes.push(self.renewed(stored, id, ca));
            writes.extend(self.put_left_out().await?);
            match self.issuer.sealer.write(writes).await {
                Ok(_) => return Ok(id),
                Err(StoreError::Conflict(_)) => match self.progress(id).await? {
                    Progress::Claimed => {}
                    Progress::Stored => return Ok(id),
                    Progress::Lost => return Err(Failure::ClaimLost),
                },
                // The write may have happened nevertheless: the next try tells.
                Err(error) if error.is_retryable() => sleep(RETRY).await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Store(StoreError::Conflict(
            "others write its hosts without pause".into(),
        )))
    }

    /// Replaces the credential in use, which all its hosts refer to; else makes a new
    /// one, and the hosts refer to it. Hosts that the order left out keep the old one.
    async fn put_credential(
        &self,
        mut stored: StoredCredential<Secret>,
        writes: &mut Vec<Write<Secret>>,
    ) -> Result<CredentialId, Failure> {
        let catalog = self.issuer.sealer.catalog();
        let before = self.lineage.credential.as_slice();
        let before = catalog.credentials(before).await?.pop();
        if let Some(before) = &before
            && before.key_type == stored.key_type
            && self.left_out.is_empty()
        {
            stored.id = before.id;
            let expected = Precondition::Version(before.version);
            writes.push(Write::PutCredential(stored, expected));
            return Ok(before.id);
        }
        let (id, key_type) = (stored.id, stored.key_type);
        writes.push(Write::PutCredential(stored, Precondition::Absent));
        let begun = writes.len();
        let before = before.map(|one| (one.key_type, one.id));
        let mut names = self.names.clone();
        if let Some((_, before)) = before {
            let mut hosts = self.hosts_of(before).await?;
            if !self.left_out.is_empty() {
                hosts.retain(|host| self.names.iter().any(|name| name.includes(host)));
            }
            names.extend(hosts);
            names.retain(|name| !self.left_out.contains(name));
            names.sort_unstable();
            names.dedup();
        }
        let records = catalog.hosts(&names).await?;
        for name in &names {
            let there = records.iter().find(|record| record.pattern == *name);
            let Some((mut record, expected)) = self.record(name, there) else {
                continue;
            };
            // A certificate with a key of another type would be preferred until it expires.
            if let Some((old_type, old)) = before
                && record.references.of(old_type) == Some(old)
            {
                record.references.set(old_type, None);
            }
            record.references.set(key_type, Some(id));
            writes.push(Write::PutHost(record, expected));
        }
        // Without a host that refers to it, nobody could be served with it.
        match writes.len() > begun {
            true => Ok(id),
            false => Err(Failure::Unused),
        }
    }

    /// Returns the record to write for a name; none for a host that was removed or
    /// given to another tenant meanwhile, and for one that can't be read.
    fn record(
        &self,
        name: &HostPattern,
        there: Option<&HostRecord>,
    ) -> Option<(HostRecord, Precondition)> {
        match there {
            // The tenant of a record that can't be read is not known.
            Some(record) if record.unreadable.is_none() && record.tenant == self.lineage.tenant => {
                let expected = Precondition::Version(record.version);
                Some((record.clone(), expected))
            }
            Some(_) => None,
            None if self.state.makes_hosts => {
                let mut record = HostRecord::new(name.clone());
                record.tenant = self.lineage.tenant.clone();
                Some((record, Precondition::Absent))
            }
            None => None,
        }
    }

    /// Returns the write of the lineage with its new certificate.
    fn renewed(
        &self,
        stored: &StoredCredential<Secret>,
        id: CredentialId,
        ca: &Authority,
    ) -> Write<Secret> {
        let now = self.now();
        let validity = Validity {
            not_before: stored.not_before,
            not_after: stored.not_after,
        };
        let seed = Seed::of(self.lineage.name.as_str());
        let own = renewal_due(now, validity, None, seed);
        let mut lineage = self.lineage.clone();
        lineage.names.clone_from(&self.names);
        lineage.credential = Some(id);
        lineage.issued_by = Some(ca.ca.directory().to_owned());
        lineage.due = Some(own.min(now + self.issuer.renewal_info_pause(None)));
        lineage.turn = renewal_turn(validity);
        lineage.attempts = 0;
        lineage.last_error = None;
        lineage.order = self.state.left().to_secret();
        lineage.claim = None;
        Write::PutLineage(lineage, Fence::Epoch(self.held.epoch))
    }

    fn failure(&mut self, failure: &Failure, why: &str, now: i64) -> (Write<Secret>, Option<i64>) {
        let seed = Seed::of(self.lineage.name.as_str());
        let validity = self.validity();
        let attempts = self.lineage.attempts;
        let mut kind = self.kind(failure, now);
        if let schedule::Failure::Closed { until } = &mut kind {
            *until = match validity {
                None if failure.is_of_limit() => first_again(now, *until, self.lineage.turn),
                None => *until,
                // From its deadline on, a renewal may take the reserve of a limit.
                Some(validity) if now < validity.deadline() => (*until).min(validity.deadline()),
                Some(_) => *until,
            };
        }
        if kind == schedule::Failure::Names {
            self.note_blamed(failure);
        }
        let next = after_failure(now, kind, attempts, validity, seed);
        if self.is_forgotten(kind, next.attempts) {
            return (self.removal(), Some(next.due));
        }
        let mut lineage = self.lineage.clone();
        lineage.due = Some(next.due);
        lineage.turn = turn_after(kind, lineage.turn, next, validity);
        lineage.attempts = next.attempts;
        let text = why.chars().take(LONGEST_ERROR).collect();
        lineage.last_error = Some(LastError { at: now, text });
        lineage.order = self.state.to_secret();
        lineage.claim = None;
        let put = Write::PutLineage(lineage, Fence::Epoch(self.held.epoch));
        (put, Some(next.due))
    }

    /// Returns what the schedule makes of a failure, in the store's time `now`. What this
    /// server's configuration lacks, another's may have: that one takes it at once, unless
    /// nobody has for long.
    fn kind(&self, failure: &Failure, now: i64) -> schedule::Failure {
        use schedule::Failure::{Authority, Closed, Names, PassedOver};
        if let Failure::Lacking(_) = failure {
            let is_untaken = self.lineage.due.is_some_and(|due| due <= now - UNTAKEN);
            let until = if is_untaken { now + LOOK } else { now };
            return PassedOver { until };
        }
        let here = self.issuer.clock.now();
        let wish = self.lineage.wishes.ca.as_deref();
        let is_wanted = self.state.wanted || self.state.revoked;
        let calm = self.validity().filter(|_| !is_wanted);
        match failure.kind(here) {
            Names => Names,
            Authority => match self.issuer.authorities.opens_in(wish) {
                None => Authority,
                Some(pause) => {
                    let until = now.saturating_add_unsigned(pause.as_secs() + 1);
                    outage(now, until, calm)
                }
            },
            PassedOver { until } => {
                let until = until - here + now;
                match failure {
                    Failure::Closed { .. } => outage(now, until, calm),
                    // The CA wants this order later.
                    _ => PassedOver { until },
                }
            }
            Closed { until } => Closed {
                until: until - here + now,
            },
        }
    }

    /// Tells whether nobody misses the lineage: its name has no record, was admitted by
    /// the ask URL once and fails. The next visitor asks again.
    fn is_forgotten(&self, kind: schedule::Failure, attempts: u32) -> bool {
        self.state.makes_hosts
            && self.current.is_none()
            && kind == schedule::Failure::Names
            && attempts >= FORGOTTEN
            // With TXT records that are still to be removed, the lineage stays.
            && self.state.records.is_empty()
    }

    fn removal(&self) -> Write<Secret> {
        Write::RemoveLineage(self.lineage.name.clone(), Fence::Epoch(self.held.epoch))
    }

    /// Tells why a write of the certificate found something else than it expected.
    async fn progress(&self, id: CredentialId) -> Result<Progress, StoreError> {
        let Some(lineage) = self.issuer.lineage(&self.lineage.name).await? else {
            return Ok(Progress::Lost);
        };
        let is_stored = lineage.credential == Some(id) && lineage.last_error.is_none();
        Ok(match lineage.claim {
            Some(claim) if claim.epoch == self.held.epoch => Progress::Claimed,
            None if is_stored => Progress::Stored,
            _ => Progress::Lost,
        })
    }
}

/// State of a lineage whose certificate was to be written.
enum Progress {
    /// The process still works on it: a host has changed.
    Claimed,
    /// An earlier try has done it.
    Stored,
    /// Another process works on it, or it was removed.
    Lost,
}

/// Seconds between two looks at a lineage that no server can get.
const LOOK: i64 = 3600;
/// More means that others write the same hosts without pause.
const MAX_TRIES: usize = 20;
/// Failures after which a name without a record is forgotten: scanners make up names
/// that a lenient ask URL admits.
const FORGOTTEN: u32 = 3;
/// Characters of a CA's words that are kept.
const LONGEST_ERROR: usize = 2000;
