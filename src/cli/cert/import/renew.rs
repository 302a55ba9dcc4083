//! Plans the renewal of imported certificates.

use std::collections::{HashMap, HashSet};

use anyhow::anyhow;
use sekisho_certs::store::Write;
use sekisho_certs::{
    Catalog, CredentialId, Fence, HostPattern, KeyType, Lineage, LineageName, SealedBytes, Sealer,
    Secret, StoreError, Tenant,
};
use sekisho_issuance::admission::orderable;
use sekisho_issuance::issuer::left_of;
use sekisho_issuance::schedule::{Seed, Validity, first_look, renewal_due, renewal_turn};

use super::plan::Plan;
use crate::cli::cert::joined;
use crate::cli::lineage::{Claims, end};
use crate::config::Config;
use crate::terminal::failure::{self, Result};

/// Renewal of what is imported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    /// Type of the keys that lineages without a wish get.
    pub(crate) key_type: KeyType,
    /// Time of the import, seconds since the Unix epoch.
    pub(crate) now: i64,
}

/// Certificate that hosts refer to behind a batch.
pub(super) struct Subject {
    pub(super) id: CredentialId,
    pub(super) key_type: KeyType,
    pub(super) validity: Validity,
    /// Patterns that refer to it.
    pub(super) names: Vec<HostPattern>,
    /// Owner of the first of them.
    pub(super) tenant: Tenant,
    /// Credentials that it replaces.
    pub(super) replaces: Vec<CredentialId>,
}

/// Lists what of a batch is to be renewed, with notes on the rest. Without a catalog no other
/// hosts have its certificates.
pub(super) async fn list(catalog: Option<&dyn Catalog>, plan: &mut Plan) -> Result<()> {
    for mut subject in std::mem::take(&mut plan.subjects) {
        subject.add_others(catalog, plan).await?;
        match subject.renewable() {
            Ok(notes) => {
                plan.notes.extend(notes);
                plan.subjects.push(subject);
                plan.renewed += 1;
            }
            Err(note) => plan.notes.push(note),
        }
    }
    Ok(())
}

/// Adds the lineages that a batch ends to its plan. With a renewal, those that it makes,
/// too: a certificate in the place of another one takes its lineage over.
pub(super) async fn plan(
    sealer: &Sealer,
    plan: &mut Plan,
    renewal: Option<Renewal>,
    claims: &mut Claims,
) -> Result<()> {
    let catalog = sealer.catalog().as_ref();
    let mut ended = plan.changed.ended(catalog).await?;
    if let Some(renewal) = renewal {
        let mut names = Names::read(catalog, &plan.subjects, &ended).await?;
        for subject in &plan.subjects {
            let (name, before) = names.take(subject)?;
            let before = match before {
                Some(before) => Some(opened(sealer, before).await?),
                None => None,
            };
            let put = renewal.lineage(subject, name, before, claims)?;
            plan.writes.extend(put);
        }
        ended.retain(|one| !names.taken.contains(&one.name));
    }
    plan.writes.extend(end(sealer, &ended).await?);
    Ok(())
}

impl Renewal {
    /// Returns the renewal of this configuration, and warns if it has none.
    pub(super) fn of(config: &Config, now: i64) -> Self {
        if config.acme.is_none() {
            failure::warn(
                &anyhow!("{} has no [acme]", config.file.display()),
                "a server that has it renews these certificates",
            );
        }
        let key = config.acme.as_ref().map(|acme| acme.settings.key);
        Self {
            key_type: key.unwrap_or_default().key_type(),
            now,
        }
    }

    /// Returns the write of a certificate's lineage; none if it stays as it is, or is
    /// to be claimed first.
    fn lineage(
        self,
        subject: &Subject,
        name: LineageName,
        before: Option<Lineage<Secret>>,
        claims: &mut Claims,
    ) -> Result<Option<Write<Secret>>> {
        let is_same = |one: &Lineage<Secret>| {
            one.credential == Some(subject.id) && one.names == subject.names && one.due.is_some()
        };
        if before.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        let is_new = before.is_none();
        let new = Lineage::new(Tenant::default(), subject.names.clone());
        let mut lineage = new.ok_or_else(|| anyhow!("{} has no host", subject.id))?;
        if let Some(before) = before {
            // An order under way was for the certificate before.
            lineage.order = left_of(before.order.as_ref());
            lineage.wishes = before.wishes;
        }
        lineage.wishes.key_type = Some(subject.key_type).filter(|one| *one != self.key_type);
        let seed = Seed::of(name.as_str());
        lineage.name = name;
        lineage.tenant = subject.tenant.clone();
        lineage.credential = Some(subject.id);
        let due = renewal_due(self.now, subject.validity, None, seed);
        lineage.due = Some(due.min(first_look(self.now, seed)));
        lineage.turn = renewal_turn(subject.validity);
        Ok(match is_new {
            true => Some(Write::PutLineage(lineage, Fence::Absent)),
            false => claims.write(lineage),
        })
    }
}

/// Opens the order of a lineage; one that can't be read counts as none.
async fn opened(sealer: &Sealer, lineage: Lineage<SealedBytes>) -> Result<Lineage<Secret>> {
    match sealer.open_lineage(lineage.clone()).await {
        Err(StoreError::Corrupt(_)) => Ok(lineage.split_order().0),
        opened => Ok(opened?),
    }
}

impl Subject {
    /// Adds the hosts that referred to the certificate before the batch.
    async fn add_others(&mut self, catalog: Option<&dyn Catalog>, plan: &Plan) -> Result<()> {
        if let Some(catalog) = catalog.filter(|_| plan.known.contains(&self.id)) {
            let others = catalog.hosts_of(self.id, None, MAX_NAMES + 1).await?;
            let stay = |host: &HostPattern| !plan.changed.drops(self.id, host);
            self.names.extend(others.into_iter().filter(stay));
        }
        self.names.sort_unstable();
        self.names.dedup();
        Ok(())
    }

    /// Leaves out the names that no CA issues for: returns notes on them, or the
    /// reason why nothing is left.
    fn renewable(&mut self) -> std::result::Result<Vec<String>, String> {
        let shown = joined(&self.names);
        let mut notes = Vec::new();
        self.names.retain(|name| match orderable(name) {
            Ok(()) => true,
            Err(why) => {
                notes.push(format!("{name} is not renewed: {why}"));
                false
            }
        });
        let why = match self.names.len() {
            _ if self.key_type == KeyType::Ed25519 => "no CA issues for Ed25519 keys".to_owned(),
            0 => return Err(notes.join("; ")),
            1..=MAX_NAMES => return Ok(notes),
            _ => format!("it has more than {MAX_NAMES} hosts, the most that CAs issue for"),
        };
        Err(format!("the certificate of {shown} is not renewed: {why}"))
    }
}

/// Lineages that a batch may go on with.
struct Names {
    /// Existing lineages, by name.
    there: HashMap<LineageName, Lineage<SealedBytes>>,
    /// Names of those that belong to a credential, or have ended with it.
    by_credential: HashMap<CredentialId, LineageName>,
    /// Names that end with the batch unless it writes them.
    ended: HashSet<LineageName>,
    /// Names that the batch writes.
    taken: HashSet<LineageName>,
}

impl Names {
    async fn read(
        catalog: &dyn Catalog,
        subjects: &[Subject],
        ended: &[Lineage<SealedBytes>],
    ) -> Result<Self> {
        let ids: Vec<_> = subjects.iter().map(|subject| subject.id).collect();
        let firsts = subjects.iter().filter_map(|subject| subject.names.first());
        let firsts: Vec<_> = firsts.map(LineageName::from).collect();
        let own = catalog.lineages_of(&ids).await?;
        let by_credential = ended.iter().chain(&own);
        let by_credential = by_credential
            .filter_map(|one| Some((one.credential?, one.name.clone())))
            .collect();
        let named = catalog.lineages(&firsts).await?;
        let there = named.into_iter().chain(own).chain(ended.iter().cloned());
        Ok(Self {
            there: there.map(|one| (one.name.clone(), one)).collect(),
            by_credential,
            ended: ended.iter().map(|one| one.name.clone()).collect(),
            taken: HashSet::new(),
        })
    }

    /// Takes the lineage that a certificate goes on with, or the name of a new one:
    /// its first host's, or its id if another certificate's lineage has that.
    fn take(&mut self, subject: &Subject) -> Result<(LineageName, Option<Lineage<SealedBytes>>)> {
        let first = subject.names.first().map(LineageName::from);
        let first = first.ok_or_else(|| anyhow!("{} has no host", subject.id))?;
        let ids = [subject.id]
            .into_iter()
            .chain(subject.replaces.iter().copied());
        let of_ids = ids.filter_map(|id| self.by_credential.get(&id));
        let mut known = of_ids.chain(self.ended.get(&first));
        let known = known.find(|name| !self.taken.contains(*name)).cloned();
        let is_free = !self.there.contains_key(&first) && !self.taken.contains(&first);
        let name = match known {
            Some(name) => name,
            None if is_free => first,
            None => LineageName::parse(&subject.id.to_string()).map_err(|why| anyhow!(why))?,
        };
        self.taken.insert(name.clone());
        let before = self.there.get(&name).cloned();
        Ok((name, before))
    }
}

/// Names of a certificate: Let's Encrypt's limit.
const MAX_NAMES: usize = 100;
