//! Plans the writes of a batch of pairs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Clock, CredentialId, HostPattern, HostRecord, KeyType, Origin, References, Secret,
    StoredCredential,
};

use sekisho_issuance::schedule::Validity;

use super::check::{Checked, Digest, digest};
use super::renew::Subject;
use super::report::Outcome;
use super::rules::Rules;
use super::settled::Settled;
use super::source::Refusal;
use crate::cli::lineage::Changed;
use crate::terminal::output::rfc3339;

/// Stored certificate that pairs are compared with.
#[derive(Clone)]
pub(super) struct KnownCert {
    pub(super) id: CredentialId,
    pub(super) digest: Digest,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl KnownCert {
    pub(super) fn of<K>(credential: &StoredCredential<K>) -> Self {
        Self {
            id: credential.id,
            digest: digest(credential),
            not_before: credential.not_before,
            not_after: credential.not_after,
        }
    }
}

/// Hosts, with types of keys.
pub(super) type Kept = HashSet<(HostPattern, KeyType)>;

/// Operations of one transaction, with notes on them.
pub(super) struct Plan {
    pub(super) writes: Vec<Write<Secret>>,
    /// Result of each pair of the batch.
    pub(super) outcomes: Vec<Outcome>,
    /// Pairs that left the batch, since a host belongs to others.
    pub(super) refused: Vec<Refusal>,
    /// Number of certificates that will be renewed.
    pub(super) renewed: u64,
    /// Source of each host that is made and keeps its name.
    pub(super) made: Vec<Arc<str>>,
    /// Notes on pairs that were issued before their hosts' certificates, and on
    /// certificates that won't be renewed.
    pub(super) notes: Vec<String>,
    /// Hosts that keep a certificate which was issued later.
    pub(super) kept: Kept,
    /// Credential of each chain of the batch after the write.
    pub(super) ids: HashMap<Digest, CredentialId>,
    /// Credentials that were stored before.
    pub(super) known: HashSet<CredentialId>,
    /// Changed references.
    pub(super) changed: Changed,
    /// Certificates of the batch that hosts refer to, if they are to be renewed.
    pub(super) subjects: Vec<Subject>,
}

impl Plan {
    /// Plans a batch. `records` are the existing hosts of the batch. `stored`
    /// are the credentials that they refer to, and others that the batch may
    /// repeat. Later pairs of the batch win, but replace a `settled` one only
    /// if that does not outrank them. A pair that is stored takes no host with a
    /// certificate that is valid `now` unless it is named for it: the other may still come.
    /// A pair that is named for a host takes it from others of the batch that were issued later.
    /// `rules` say what becomes of hosts, and whether to list what is to be renewed.
    pub(super) fn new(
        records: Vec<HostRecord>,
        stored: &[KnownCert],
        batch: &[Checked],
        settled: &Settled,
        rules: &Rules,
        now: i64,
    ) -> Self {
        let digests = stored.iter().map(|one| (one.digest, one.id));
        let mut ids: HashMap<_, _> = digests.collect();
        let known: HashSet<_> = ids.values().copied().collect();
        number(&mut ids, batch);
        let by_id: HashMap<_, _> = stored.iter().map(|one| (one.id, one)).collect();
        let of_batch: HashSet<_> = batch.iter().map(|pair| pair.digest).collect();
        let mut hosts = Hosts::new(records);
        let (mut notes, mut kept) = (Vec::new(), HashSet::new());
        // The last pair wins: those that name a host follow those that cover it.
        for is_named in [false, true] {
            for (pair, host) in each_host(batch, is_named) {
                let credential = &pair.credential;
                let before = hosts.before(host, credential.key_type);
                let stored = before.and_then(|id| by_id.get(&id));
                if let Some(stored) = stored {
                    let of_host = (host, credential.key_type);
                    let is_longer = (stored.not_after, stored.not_before) > validity(credential);
                    match settled.outranks(of_host, is_named, is_longer) {
                        Some(true) => continue,
                        None if rules.skips(credential, stored)
                            && !(is_named && of_batch.contains(&stored.digest)) =>
                        {
                            notes.push(keeps(host, stored.not_before));
                            kept.insert((host.clone(), credential.key_type));
                            continue;
                        }
                        None if !is_named
                            && known.contains(&ids[&pair.digest])
                            && stored.not_after >= now =>
                        {
                            continue;
                        }
                        Some(false) | None => {}
                    }
                }
                hosts.refer(host, pair, ids[&pair.digest], rules);
            }
        }
        let outcome = |pair: &Checked| hosts.outcome(pair, ids[&pair.digest], &kept);
        let outcomes = batch.iter().map(outcome).collect();
        let changed = hosts.references();
        let subjects = match rules.renewal.is_some() {
            true => hosts.subjects(batch, &ids),
            false => Vec::new(),
        };
        let hosts = hosts.changed();
        let made = hosts.iter().filter(|host| host.version == 0);
        let made = made.filter_map(|host| Some(Arc::clone(&host.origin.as_ref()?.source)));
        let made = made.collect();
        let mut writes = credentials(batch, &ids, &known, &hosts);
        writes.extend(hosts.into_iter().map(put_host));
        Self {
            writes,
            outcomes,
            refused: Vec::new(),
            renewed: 0,
            made,
            notes,
            kept,
            ids,
            known,
            changed,
            subjects,
        }
    }
}

/// Returns the order of certificates by their validity: that which ends last is the last.
pub(super) fn validity<K>(credential: &StoredCredential<K>) -> (i64, i64) {
    (credential.not_after, credential.not_before)
}

/// Lists the pairs with their hosts, those that are named for the pair or the others.
fn each_host(batch: &[Checked], is_named: bool) -> impl Iterator<Item = (&Checked, &HostPattern)> {
    batch.iter().flat_map(move |pair| {
        let hosts = pair.hosts.iter();
        let wanted = hosts.filter(move |host| pair.named.contains(host) == is_named);
        wanted.map(move |host| (pair, host))
    })
}

fn keeps(host: &HostPattern, issued: i64) -> String {
    let issued = rfc3339(issued);
    format!(
        "{host} keeps its certificate, which was issued later ({issued}); --replace-newer \
         replaces it"
    )
}

/// Hosts of the batch, before and after it.
struct Hosts(HashMap<HostPattern, Host>);

struct Host {
    before: References,
    /// The record after the batch; version 0 for a new host.
    after: HostRecord,
}

impl Host {
    fn of(record: HostRecord) -> Self {
        Self {
            before: record.references,
            after: record,
        }
    }
}

impl Hosts {
    fn new(records: Vec<HostRecord>) -> Self {
        let hosts = records.into_iter();
        let hosts = hosts.map(|record| (record.pattern.clone(), Host::of(record)));
        Self(hosts.collect())
    }

    /// Returns the credential that a host referred to before the batch.
    fn before(&self, pattern: &HostPattern, key_type: KeyType) -> Option<CredentialId> {
        self.0.get(pattern)?.before.of(key_type)
    }

    /// Points a host at a pair. The record keeps the name of the pair's source if this import
    /// makes it, or has brought it before.
    fn refer(&mut self, pattern: &HostPattern, pair: &Checked, id: CredentialId, rules: &Rules) {
        let host = self.0.entry(pattern.clone());
        let host = host.or_insert_with(|| Host::of(rules.make(pattern)));
        let after = &mut host.after;
        after.references.set(pair.credential.key_type, Some(id));
        let before = after.origin.as_ref().map(|origin| &origin.source);
        if after.version == 0 || before.is_some() && before == pair.source_name.as_ref() {
            after.origin = pair.source_name.clone().map(Origin::new);
        }
    }

    /// Returns the result of one pair, where `kept` hosts have a certificate that was issued later.
    fn outcome(&self, pair: &Checked, id: CredentialId, kept: &Kept) -> Outcome {
        let key_type = pair.credential.key_type;
        let hosts = pair.hosts.iter().filter_map(|pattern| self.0.get(pattern));
        let mut patterns = pair.hosts.iter().cloned();
        let is_newer = patterns.any(|pattern| kept.contains(&(pattern, key_type)));
        let mut changed = hosts
            .filter(|host| host.after.references.of(key_type) == Some(id))
            .map(|host| host.before.of(key_type))
            .filter(|before| *before != Some(id))
            .peekable();
        let changes = changed.peek().is_some();
        let replaces = changed.any(|before| before.is_some());
        match (changes, replaces) {
            _ if pair.hosts.is_empty() => Outcome::WithoutHost,
            (false, _) if is_newer => Outcome::Older,
            (false, _) => Outcome::Skipped,
            (true, false) => Outcome::Imported,
            (true, true) => Outcome::Replaced,
        }
    }

    /// Returns the references that the batch changes.
    fn references(&self) -> Changed {
        let mut changed = Changed::default();
        for (pattern, host) in &self.0 {
            let before = (host.after.version > 0).then_some(host.before);
            changed.add(pattern, before, host.after.references);
        }
        changed
    }

    /// Returns the certificates of the batch that hosts refer to behind it, the
    /// preferred key type first.
    fn subjects(&self, batch: &[Checked], ids: &HashMap<Digest, CredentialId>) -> Vec<Subject> {
        let mut subjects: BTreeMap<_, Subject> = BTreeMap::new();
        for pair in batch {
            let (id, credential) = (ids[&pair.digest], &pair.credential);
            let key_type = credential.key_type;
            let hosts = pair.hosts.iter().map(|pattern| &self.0[pattern]);
            for host in hosts.filter(|host| host.after.references.of(key_type) == Some(id)) {
                let subject = subjects.entry((key_type, id)).or_insert_with(|| Subject {
                    id,
                    key_type,
                    validity: Validity {
                        not_before: credential.not_before,
                        not_after: credential.not_after,
                    },
                    names: Vec::new(),
                    tenant: host.after.tenant.clone(),
                    replaces: Vec::new(),
                });
                subject.names.push(host.after.pattern.clone());
                subject
                    .replaces
                    .extend(host.before.of(key_type).filter(|before| *before != id));
            }
        }
        subjects.into_values().collect()
    }

    fn changed(self) -> Vec<HostRecord> {
        let mut hosts: Vec<_> = self.0.into_values().collect();
        hosts.retain(|host| host.before != host.after.references);
        hosts.into_iter().map(|host| host.after).collect()
    }
}

/// Gives each new chain its own id.
fn number(ids: &mut HashMap<Digest, CredentialId>, batch: &[Checked]) {
    let mut taken: HashSet<_> = ids.values().copied().collect();
    for pair in batch {
        ids.entry(pair.digest).or_insert_with(|| {
            // Ids of one millisecond have few random bits: collisions are
            // possible.
            loop {
                let id = CredentialId::fresh(&Clock::System);
                if taken.insert(id) {
                    return id;
                }
            }
        });
    }
}

/// Returns the new credentials that a host refers to after the batch, each
/// once.
fn credentials(
    batch: &[Checked],
    ids: &HashMap<Digest, CredentialId>,
    known: &HashSet<CredentialId>,
    hosts: &[HostRecord],
) -> Vec<Write<Secret>> {
    let referred = hosts.iter().flat_map(|host| host.references.iter());
    let mut wanted: HashSet<_> = referred.map(|(_, id)| id).collect();
    wanted.retain(|id| !known.contains(id));
    let mut writes = Vec::with_capacity(wanted.len() + hosts.len());
    for pair in batch {
        let id = ids[&pair.digest];
        if wanted.remove(&id) {
            let credential = StoredCredential {
                id,
                origin: pair.source_name.clone().map(Origin::new),
                ..pair.credential.clone()
            };
            writes.push(Write::PutCredential(credential, Precondition::Absent));
        }
    }
    writes
}

fn put_host(record: HostRecord) -> Write<Secret> {
    let expect = match record.version {
        0 => Precondition::Absent,
        version => Precondition::Version(version),
    };
    Write::PutHost(record, expect)
}
