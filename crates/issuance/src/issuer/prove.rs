//! Answers of challenges, shown and removed.

use std::time::Duration;

use sekisho_certs::store::Precondition;
use sekisho_certs::{ChallengeKind, Challenges, HostPattern, KeyAuthorization, StoreError};
use tokio::time::{sleep, timeout};

use super::attempt::Attempt;
use super::failure::Failure;
use super::under_way::Record;
use crate::acme::{Authorization, AuthorizationStatus, Challenge, ChallengeType, Order};

impl Attempt<'_> {
    /// Answers the open challenges of an order, and tells the CA.
    pub(super) async fn prove(
        &mut self,
        order: &mut Order,
        solver: ChallengeType,
    ) -> Result<(), Failure> {
        let authorizations = order.authorizations().await?;
        let pending = |one: &&Authorization| one.status == AuthorizationStatus::Pending;
        let pending: Vec<_> = authorizations.iter().filter(pending).collect();
        let open: Vec<_> = pending
            .iter()
            .filter_map(|one| Some((one.name.as_str(), one.challenge(solver)?)))
            .collect();
        let answer = |key: &str, one: &Challenge| {
            let answer = KeyAuthorization::new(&one.key_authorization);
            (key.to_owned(), answer)
        };
        match solver {
            ChallengeType::Dns01 => self.present(&open).await?,
            ChallengeType::Http01 => {
                let answers = open.iter().map(|(_, one)| answer(&one.token, one));
                let answers = answers.collect();
                self.publish(ChallengeKind::Http01, answers).await?;
            }
            ChallengeType::TlsAlpn01 => {
                let answers = open.iter().map(|(name, one)| answer(name, one));
                let answers = answers.collect();
                self.publish(ChallengeKind::TlsAlpn01, answers).await?;
            }
        }
        // An authorization without this challenge fails here, and says so.
        for authorization in pending {
            order.set_ready(&authorization.name, solver).await?;
        }
        Ok(())
    }

    /// Writes the answers for all servers, before the CA asks any of them.
    async fn publish(
        &mut self,
        kind: ChallengeKind,
        answers: Vec<(String, KeyAuthorization)>,
    ) -> Result<(), Failure> {
        if answers.is_empty() {
            return Ok(());
        }
        let expires = self.now() + EXPIRY;
        self.write_alone(kind, &answers, expires).await?;
        for (key, answer) in answers {
            self.issuer.challenges.keep(kind, &key, answer, expires);
            self.published.push((kind, key));
        }
        Ok(())
    }

    /// Writes answers, all at once. Waits while another lineage shows one for a name of
    /// these: TLS-ALPN-01 has one answer per name, and a wrong one is a failed
    /// validation. What a killed process has left is overwritten after [`SHOWN`].
    async fn write_alone(
        &self,
        kind: ChallengeKind,
        answers: &[(String, KeyAuthorization)],
        expires: i64,
    ) -> Result<(), Failure> {
        let mut expected = Precondition::Absent;
        loop {
            let write = |(key, answer): &(String, KeyAuthorization)| {
                Challenges::write(kind, key, answer, expires, expected)
            };
            let writes = answers.iter().map(write).collect();
            match self.issuer.sealer.write(writes).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict(_)) if expected == Precondition::Absent => {
                    match self.is_shown_by_another(kind, answers).await? {
                        true => sleep(LOOK).await,
                        false => expected = Precondition::Any,
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tells whether another order has begun to show an answer within [`SHOWN`].
    async fn is_shown_by_another(
        &self,
        kind: ChallengeKind,
        answers: &[(String, KeyAuthorization)],
    ) -> Result<bool, Failure> {
        for (key, answer) in answers {
            let stored = self.issuer.challenges.stored(kind, key).await?;
            let Some((shown, expires)) = stored.filter(|(shown, _)| shown != answer) else {
                continue;
            };
            let since = self.now() - (expires.unwrap_or(0) - EXPIRY);
            if since < SHOWN {
                let (lineage, shown) = (&self.lineage.name, shown.as_str().len());
                tracing::debug!(%lineage, key, since, shown, "another order of the name is validated");
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes TXT records. What is to be removed is saved before it is there.
    async fn present(&mut self, open: &[(&str, &Challenge)]) -> Result<(), Failure> {
        let names = open.iter().map(|(name, _)| HostPattern::parse(name));
        let names: Result<Vec<_>, _> = names.collect();
        let names = names.map_err(|error| Failure::Setting(error.to_string()))?;
        let mut delegations = self.check_cnames(&names).await?.into_iter();
        let (mut records, mut texts) = (Vec::new(), Vec::new());
        for (name, (_, challenge)) in names.iter().zip(open) {
            match self.issuer.solvers.dns(name) {
                Some(dns) => records.push(Record {
                    name: name.as_str().to_owned(),
                    presented: dns.locate(name, &challenge.txt).await?,
                }),
                None => texts.extend(delegations.next().map(|at| {
                    let key = format!("{}. {}", at.target, challenge.txt);
                    (key, KeyAuthorization::new(&challenge.txt))
                })),
            }
        }
        self.state.note_records(&records);
        self.save().await?;
        // No wait: servers read the catalog after each question.
        self.publish(ChallengeKind::Dns01, texts).await?;
        let present = records.iter().map(|record| async {
            match self.dns(record) {
                Some(dns) => dns.present(&record.presented).await,
                None => Ok(()),
            }
        });
        futures_util::future::try_join_all(present).await?;
        Ok(())
    }

    /// Removes what was shown. A TXT record that can't be removed stays noted for the
    /// next attempt; other answers expire by themselves.
    pub(super) async fn clean_up(&mut self) {
        let lineage = &self.lineage.name;
        let challenges = &self.issuer.challenges;
        let published = self.published.drain(..);
        let writes: Vec<_> = published
            .map(|(kind, key)| challenges.remove(kind, &key))
            .collect();
        if !writes.is_empty()
            && let Err(error) = self.issuer.sealer.write(writes).await
        {
            tracing::debug!(%lineage, %error, "answers of challenges stay until they expire");
        }
        let records = std::mem::take(&mut self.state.records);
        let removals = records.into_iter().map(|record| self.remove(record));
        let left = futures_util::future::join_all(removals).await;
        self.state.records = left.into_iter().flatten().collect();
    }

    /// Removes a TXT record; returns it if that failed.
    async fn remove(&self, record: Record) -> Option<Record> {
        let lineage = &self.lineage.name;
        let Some(dns) = self.dns(&record) else {
            let fqdn = record.presented.fqdn;
            tracing::warn!(%lineage, fqdn, "remove this TXT record by hand: its zone has left [acme.dns]");
            return None;
        };
        let removal = dns.clean_up(&record.presented);
        let why = match timeout(REMOVAL, removal).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done within {REMOVAL:?}"),
        };
        tracing::warn!(%lineage, why, "a TXT record was not removed");
        Some(record)
    }

    fn dns(&self, record: &Record) -> Option<&crate::solver::dns01::Dns01> {
        let name = HostPattern::parse(&record.name).ok()?;
        self.issuer.solvers.dns(&name)
    }
}

/// A visitor waits for it: what is left is removed with the next attempt.
const REMOVAL: Duration = Duration::from_secs(15);
/// Seconds after which an answer for a name gives way to another order's: a process that
/// was killed removes none. The CA is told of each name of an order in turn, up to 100,
/// and is then waited for up to 2 minutes: an answer must not give way before.
const SHOWN: i64 = 4 * 60;
/// Time between two looks at another order's answer.
const LOOK: Duration = Duration::from_millis(250);
/// Seconds for which an answer is there if nobody removes it: other servers answer it
/// even if their clocks are a day ahead.
const EXPIRY: i64 = 2 * 24 * 3600;
