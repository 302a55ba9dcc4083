//! Removes what a source brought and no longer has.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use sekisho_certs::{
    CredentialFilter, CredentialId, HostFilter, HostPattern, HostRecord, KeyType, Origin, Sealer,
};

use super::args::Args;
use super::check::Checked;
use super::report::Report;
use super::source::Refusal;
use crate::cli::edit::{Edit, edit};
use crate::terminal::failure::Result;
use crate::terminal::output::PAGE;

/// Hosts and certificates that the sources of an import have. It keeps 64-bit hashes of hosts
/// with their key types: two that collide keep a host.
#[derive(Default)]
pub(super) struct SeenHosts {
    hosts: HashSet<u64>,
    credentials: HashSet<CredentialId>,
    hasher: RandomState,
    /// Place of a refusal for unknown hosts.
    unknown: Option<PathBuf>,
}

impl SeenHosts {
    /// Notes a pair, whose hosts may keep a certificate that was issued later.
    pub(super) fn add(&mut self, pair: &Checked, id: Option<CredentialId>) {
        let id = id.filter(|_| self.hosts.len() <= MAX_SEEN);
        self.credentials.extend(id);
        self.note(&pair.hosts, pair.credential.key_type);
    }

    /// Notes a pair that was refused: its hosts keep what they have.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        if refusal.hosts.is_empty() {
            self.unknown = Some(refusal.place.clone());
        }
        for key_type in KeyType::ALL {
            self.note(&refusal.hosts, key_type);
        }
    }

    /// Notes hosts up to one more than the bound, which tells that it was passed.
    fn note(&mut self, hosts: &[HostPattern], key_type: KeyType) {
        let room = (MAX_SEEN + 1).saturating_sub(self.hosts.len());
        let noted = hosts.iter().take(room);
        let hashes = noted.map(|host| self.hasher.hash_one((host, key_type)));
        self.hosts.extend(hashes);
    }

    fn has(&self, host: &HostPattern, key_type: KeyType) -> bool {
        self.hosts.contains(&self.hasher.hash_one((host, key_type)))
    }

    fn has_host(&self, host: &HostPattern) -> bool {
        KeyType::ALL.iter().any(|one| self.has(host, *one))
    }
}

/// Host that a source no longer has, or a reference of one that stays.
type GoneHost = (HostPattern, Option<(KeyType, CredentialId)>);

/// Removal of what sources no longer have.
pub(super) struct Prune<'a> {
    pub(super) sealer: &'a Sealer,
    pub(super) seen: SeenHosts,
    pub(super) args: &'a Args,
}

impl Prune<'_> {
    /// Removes the hosts that each source made and no longer has, and its certificates from other
    /// hosts.
    ///
    /// # Errors
    /// If a source may still have what is to be removed, or that is too much: compared with what
    /// the source had before the import and, in a watch, before earlier rounds.
    pub(super) async fn run(&self, origins: &[Origin], report: &mut Report) -> Result<()> {
        if let Some(place) = &self.seen.unknown {
            let place = place.display();
            bail!("nothing is removed: the hosts of {place}, which was refused, are unknown");
        }
        if self.seen.hosts.len() > MAX_SEEN {
            bail!("nothing is removed: --prune follows at most {MAX_SEEN} hosts");
        }
        for Origin { source, .. } in origins {
            let [made @ .., removed] = report.changes.get(source).copied().unwrap_or_default();
            let (all, gone) = self.gone(source, made).await?;
            let (all, count) = (all + removed, gone.len() as u64 + removed);
            let most = self.args.prune_at_most.unwrap_or((all / 20).max(1));
            if count > most && !gone.is_empty() {
                bail!(
                    "{source} no longer has {count} of {all} hosts: nothing is removed; \
                     --prune-at-most {count} allows it"
                );
            }
            for (host, reference) in gone {
                report.remove(&host, source)?;
                if !self.args.dry_run {
                    self.remove(source, &host, reference).await?;
                }
            }
        }
        Ok(())
    }

    /// Lists what a source brought and no longer has, but nothing of other tenants than `--tenant`.
    /// Returns the number of its hosts, or certificates if those are more, without what was `made`.
    async fn gone(&self, source: &Arc<str>, made: [u64; 2]) -> Result<(u64, Vec<GoneHost>)> {
        let catalog = self.sealer.catalog();
        let (mut all, mut certificates, mut gone) = (0, 0, Vec::new());
        let filter = HostFilter {
            tenant: self.args.tenant.clone(),
            origin: Some(Arc::clone(source)),
            ..HostFilter::default()
        };
        let mut after = None;
        loop {
            let page = catalog.list_hosts(&filter, after.as_ref(), PAGE).await?;
            all += page.hosts.len() as u64;
            let hosts = page.hosts.into_iter().map(|record| record.pattern);
            let unseen = hosts.filter(|host| !self.seen.has_host(host));
            gone.extend(unseen.map(|host| (host, None)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let filter = CredentialFilter::Origin(Arc::clone(source));
        let mut after = None;
        loop {
            let page = catalog.list_credentials(&filter, after, PAGE).await?;
            certificates += page.credentials.len() as u64;
            let is_unseen = |id: &CredentialId| !self.seen.credentials.contains(id);
            for one in page.credentials.iter().filter(|one| is_unseen(&one.id)) {
                // Hosts beyond a page go with the next import.
                let hosts = catalog.hosts_of(one.id, None, PAGE).await?;
                let mut records = catalog.hosts(&hosts).await?;
                records.retain(|record| self.has_left(source, record, one.key_type));
                let reference = Some((one.key_type, one.id));
                gone.extend(records.into_iter().map(|host| (host.pattern, reference)));
            }
            after = page.next;
            if after.is_none() {
                let before = all.saturating_sub(made[0]);
                return Ok((before.max(certificates.saturating_sub(made[1])), gone));
            }
        }
    }

    /// Tells whether a host stays, and is to lose its certificate of this type.
    fn has_left(&self, source: &Arc<str>, record: &HostRecord, key_type: KeyType) -> bool {
        let tenant = self.args.tenant.as_ref();
        let is_ours = tenant.is_none_or(|tenant| record.tenant == *tenant);
        let stays = self.seen.has_host(&record.pattern) || !is_of(record, source);
        is_ours && stays && !self.seen.has(&record.pattern, key_type)
    }

    /// Removes a host or, of one that stays, a reference. A host that was changed meanwhile is
    /// kept.
    async fn remove(
        &self,
        source: &Arc<str>,
        host: &HostPattern,
        reference: Option<(KeyType, CredentialId)>,
    ) -> Result<()> {
        edit(self.sealer, host, async |stored| {
            let Some(mut record) = stored else {
                return Ok(Edit::Keep);
            };
            Ok(match reference {
                None if is_of(&record, source) => Edit::Remove,
                Some((key_type, id)) if record.references.of(key_type) == Some(id) => {
                    if is_of(&record, source) {
                        record.origin = Some(Origin::new(Arc::clone(source)));
                    }
                    record.references.set(key_type, None);
                    Edit::Put(record)
                }
                None | Some(_) => Edit::Keep,
            })
        })
        .await
    }
}

fn is_of(record: &HostRecord, source: &Arc<str>) -> bool {
    let origin = record.origin.as_ref();
    origin.is_some_and(|origin| origin.source == *source)
}

/// Hosts with key types that are noted, some 40 MB.
const MAX_SEEN: usize = 2_000_000;
