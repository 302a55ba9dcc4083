//! Certificates that a command wants: their hosts and lineages.

use std::collections::{HashMap, HashSet};

use anyhow::{anyhow, bail};
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Catalog, Clock, CredentialId, Fence, HostPattern, HostRecord, KeyType, Lineage, LineageName,
    Sealer, Secret, StoreError, Tenant,
};
use sekisho_issuance::issuer::wait_for_cname;
use sekisho_issuance::schedule::first_turn;

use super::WishArgs;
use crate::cli::lineage::Claims;
use crate::terminal::failure::Result;

/// Certificates for these names, each with what it covers.
pub(crate) struct Wanted<'a> {
    pub(crate) certificates: Vec<&'a [HostPattern]>,
    pub(crate) wishes: &'a WishArgs,
    /// Owner of new hosts, and of the existing ones.
    pub(crate) tenant: Option<&'a Tenant>,
    /// Type of keys that differ from no wish.
    pub(crate) key_type: KeyType,
    /// Unix second until which servers wait for CNAMEs before they order.
    pub(crate) waits_until: Option<i64>,
}

impl Wanted<'_> {
    /// Makes the hosts that are not there, and the lineages; returns these. A page of
    /// certificates is one transaction.
    pub(crate) async fn put(&self, sealer: &Sealer) -> Result<Vec<LineageName>> {
        let (mut lineages, mut turns) = (Vec::new(), Turns::new());
        for page in self.certificates.chunks(PAGE) {
            lineages.extend(self.put_page(sealer, page, &mut turns).await?);
        }
        Ok(lineages)
    }

    async fn put_page(
        &self,
        sealer: &Sealer,
        page: &[&[HostPattern]],
        turns: &mut Turns,
    ) -> Result<Vec<LineageName>> {
        let mut attempts = 0;
        let mut claims = Claims::new();
        loop {
            let there = There::read(sealer, page, self).await?;
            let (mut writes, mut names) = (Vec::new(), Vec::new());
            for certificate in page {
                let tenant = self.put_hosts(certificate, &there, &mut writes)?;
                let new = new(certificate, tenant, turns)?;
                names.push(self.put_lineage(certificate, new, &there, &mut claims, &mut writes)?);
            }
            if claims.claim_missing(sealer).await? {
                continue;
            }
            attempts += 1;
            match sealer.write(writes).await {
                Ok(_) => return Ok(names),
                Err(StoreError::Conflict(_)) if attempts < MAX_ATTEMPTS => claims.forget(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds the hosts that are missing; returns the tenant of all.
    fn put_hosts(
        &self,
        names: &[HostPattern],
        there: &There,
        writes: &mut Vec<Write<Secret>>,
    ) -> Result<Tenant> {
        let records = names.iter().filter_map(|name| there.hosts.get(name));
        let mut tenant = self.tenant;
        for record in records {
            let wanted = *tenant.get_or_insert(&record.tenant);
            if *wanted != record.tenant {
                bail!(
                    "{} belongs to the tenant {:?}, not to {:?}; one certificate has the names \
                     of one tenant",
                    record.pattern,
                    record.tenant.as_str(),
                    wanted.as_str()
                );
            }
        }
        let tenant = tenant.cloned().unwrap_or_default();
        for name in names.iter().filter(|name| !there.hosts.contains_key(*name)) {
            let mut record = HostRecord::new(name.clone());
            record.tenant = tenant.clone();
            writes.push(Write::PutHost(record, Precondition::Absent));
        }
        Ok(tenant)
    }

    /// Adds the lineage unless it is there as it should be; returns its name.
    fn put_lineage(
        &self,
        names: &[HostPattern],
        mut new: Lineage<Secret>,
        there: &There,
        claims: &mut Claims,
        writes: &mut Vec<Write<Secret>>,
    ) -> Result<LineageName> {
        let before = there.lineage_for(&new, self.wanted_type());
        if let Some(before) = before {
            new.name = before.name.clone();
            new.wishes = before.wishes.clone();
            // It says which records are to be removed.
            new.order.clone_from(&before.order);
        } else if there.lineages.contains_key(&new.name) {
            new.name = second_name(&new.name, self.wanted_type())?;
        }
        self.wishes.apply(&mut new.wishes, self.key_type);
        self.wait(&mut new);
        let name = new.name.clone();
        match before {
            Some(before) if names.len() == 1 || before.names == new.names => {
                let is_same = before.wishes == new.wishes && before.tenant == new.tenant;
                if !is_same || self.waits_until.is_some() {
                    let mut changed = before.clone();
                    (changed.wishes, changed.tenant) = (new.wishes, new.tenant);
                    self.wait(&mut changed);
                    writes.extend(claims.write(changed));
                }
            }
            // With other names, it is as before its first certificate.
            Some(_) => writes.extend(claims.write(new)),
            None => writes.push(Write::PutLineage(new, Fence::Absent)),
        }
        Ok(name)
    }

    /// Lets servers look for CNAMEs from now on, if they are to be waited for.
    fn wait(&self, lineage: &mut Lineage<Secret>) {
        if let Some(until) = self.waits_until {
            lineage.order = wait_for_cname(lineage.order.as_ref(), until);
            lineage.due = Some(Clock::System.now());
            (lineage.attempts, lineage.last_error) = (0, None);
        }
    }

    fn wanted_type(&self) -> KeyType {
        self.wishes.key.unwrap_or(self.key_type)
    }
}

/// Last turn of each tenant: what the command leaves does not stand before the names
/// of others.
type Turns = HashMap<Tenant, i64>;

/// Makes the lineage of a certificate that is not there.
fn new(names: &[HostPattern], tenant: Tenant, turns: &mut Turns) -> Result<Lineage<Secret>> {
    let now = Clock::System.now();
    let turn = first_turn(now, turns.get(&tenant).copied());
    turns.insert(tenant.clone(), turn);
    let new = Lineage::new(tenant, names.iter().cloned());
    let mut new = new.ok_or_else(|| anyhow!("a certificate needs a name"))?;
    // Servers go on with it if this command ends before it.
    new.due = Some(now + HEAD_START);
    new.turn = turn;
    Ok(new)
}

/// Existing hosts and lineages of a page.
struct There {
    hosts: HashMap<HostPattern, HostRecord>,
    lineages: HashMap<LineageName, Lineage<Secret>>,
    /// Credentials of these lineages.
    credentials: HashSet<CredentialId>,
    /// Type of keys that differ from no wish.
    key_type: KeyType,
}

impl There {
    async fn read(sealer: &Sealer, page: &[&[HostPattern]], wanted: &Wanted<'_>) -> Result<Self> {
        let catalog: &dyn Catalog = sealer.catalog().as_ref();
        let patterns: Vec<_> = page.iter().copied().flatten().cloned().collect();
        let records = catalog.hosts(&patterns).await?;
        let references = records.iter().flat_map(|record| record.references.iter());
        let mut ids: Vec<_> = references.map(|(_, id)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut names = Vec::with_capacity(2 * page.len());
        for first in page.iter().filter_map(|certificate| certificate.first()) {
            let name = LineageName::from(first);
            names.push(second_name(&name, wanted.wanted_type())?);
            names.push(name);
        }
        let mut lineages = catalog.lineages(&names).await?;
        lineages.extend(catalog.lineages_of(&ids).await?);
        let mut opened = HashMap::with_capacity(lineages.len());
        for one in lineages {
            opened.insert(one.name.clone(), sealer.open_lineage(one).await?);
        }
        let lineages = opened;
        let ids: Vec<_> = lineages.values().filter_map(|one| one.credential).collect();
        let credentials = catalog.credentials(&ids).await?;
        let hosts = records.into_iter();
        Ok(Self {
            credentials: credentials.into_iter().map(|one| one.id).collect(),
            hosts: hosts.map(|one| (one.pattern.clone(), one)).collect(),
            lineages,
            key_type: wanted.key_type,
        })
    }

    /// Returns the lineage that is to get the certificate of `new` with such a key. That of
    /// another tenant is taken over unless it has other names, too.
    fn lineage_for(&self, new: &Lineage<Secret>, key_type: KeyType) -> Option<&Lineage<Secret>> {
        let is_first = |name: &&HostPattern| name.as_str() == new.name.as_str();
        let first = new.names.iter().find(is_first)?;
        let record = self.hosts.get(first);
        let referred = record.and_then(|record| record.references.of(key_type));
        let is_for = |one: &&Lineage<Secret>| {
            one.wishes.key_type.unwrap_or(self.key_type) == key_type && one.names.contains(first)
        };
        let fits = |one: &&Lineage<Secret>| match one.credential {
            Some(id) => Some(id) == referred || !self.credentials.contains(&id),
            None => true,
        };
        let is_own = |one: &&Lineage<Secret>| {
            one.tenant == new.tenant || one.names.iter().all(|name| new.names.contains(name))
        };
        let all = self.lineages.values().filter(is_for);
        all.filter(is_own).find(fits)
    }
}

/// Name of a lineage where another one is called after the first name.
fn second_name(first: &LineageName, key_type: KeyType) -> Result<LineageName> {
    let name = format!("{first}+{}", key_type.as_str());
    LineageName::parse(&name).map_err(|why| anyhow!(why))
}

/// Certificates that are written at once.
const PAGE: usize = 1000;
/// Attempts; more mean that another program writes the same hosts without pause.
const MAX_ATTEMPTS: usize = 8;
/// Seconds after which a server takes up what a command has left.
const HEAD_START: i64 = 60;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use clap::{Args as _, FromArgMatches as _};
    use tokio::time::sleep;

    use super::*;
    use crate::cli::lineage::claims::fixture::{claimed, lineage};

    async fn put(sealer: &Sealer, names: &[HostPattern]) -> Result<Vec<LineageName>> {
        let command = WishArgs::augment_args(clap::Command::new("issue"));
        let matches = command.get_matches_from(["issue", "--profile", "shortlived"]);
        let wishes = WishArgs::from_arg_matches(&matches).unwrap();
        let wanted = Wanted {
            certificates: vec![names],
            wishes: &wishes,
            tenant: None,
            key_type: KeyType::Ecdsa,
            waits_until: None,
        };
        wanted.put(sealer).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_lineage_that_a_server_works_on_stays_as_it_is() {
        let (sealer, _, claim) = claimed().await;
        let names = ["a.example", "b.example"].map(|name| HostPattern::parse(name).unwrap());
        for names in [&names[..1], &names] {
            let error = put(&sealer, names).await.unwrap_err();
            let text = format!("{error:?}");
            assert!(
                text.contains("another process works on a.example"),
                "{text}"
            );
            let there = lineage(&sealer).await;
            assert_eq!(there.claim.unwrap().epoch, claim.epoch);
            assert_eq!(there.order.unwrap().expose(), b"order");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_the_claim_and_keeps_the_order() {
        let names = ["a.example", "b.example"].map(|name| HostPattern::parse(name).unwrap());
        for names in [&names[..1], &names] {
            let (sealer, time, _) = claimed().await;
            let ended = async {
                sleep(Duration::from_secs(5)).await;
                time.fetch_add(61_000, Ordering::SeqCst);
            };
            let (done, ()) = tokio::join!(put(&sealer, names), ended);
            assert_eq!(done.unwrap().len(), 1);
            let there = lineage(&sealer).await;
            assert_eq!((there.claim, there.names.len()), (None, names.len()));
            assert_eq!(there.wishes.profile.as_deref(), Some("shortlived"));
            assert_eq!(there.order.unwrap().expose(), b"order");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_lineage_of_a_host_follows_it_to_its_next_tenant() {
        let (sealer, time, _) = claimed().await;
        time.fetch_add(61_000, Ordering::SeqCst);
        let [a, b] = ["a.example", "b.example"].map(|name| HostPattern::parse(name).unwrap());
        let give = async |tenant: &Tenant| {
            let mut record = HostRecord::new(a.clone());
            record.tenant = tenant.clone();
            let put = Write::PutHost(record, Precondition::Any);
            sealer.write(vec![put]).await.unwrap();
        };
        let [anna, bert] = ["anna", "bert"].map(|name| Tenant::parse(name).unwrap());
        give(&anna).await;
        let names = put(&sealer, std::slice::from_ref(&a)).await.unwrap();
        let there = lineage(&sealer).await;
        assert_eq!((&there.name, &there.tenant), (&names[0], &anna));
        assert_eq!(there.order.unwrap().expose(), b"order");

        // One with a name that stays with its tenant stays, too.
        give(&Tenant::default()).await;
        let both = [a.clone(), b];
        assert_eq!(put(&sealer, &both).await.unwrap(), names);
        assert_eq!(lineage(&sealer).await.tenant, Tenant::default());
        give(&bert).await;
        let names = put(&sealer, std::slice::from_ref(&a)).await.unwrap();
        assert_eq!(names[0].as_str(), "a.example+ecdsa");
        assert_eq!(lineage(&sealer).await.names, both);
    }

    #[tokio::test]
    async fn what_a_command_leaves_is_spaced_per_tenant() {
        let [many, few] = ["many", "few"].map(|name| Tenant::parse(name).unwrap());
        let (mut turns, names) = (Turns::new(), [HostPattern::parse("a.example").unwrap()]);
        let mut turn = |tenant: &Tenant| new(&names, tenant.clone(), &mut turns).unwrap().turn;
        let first = turn(&many);
        let last = (0..99).map(|_| turn(&many)).last().unwrap();
        assert!(last >= first + 99 * 3600, "{last}");
        assert!(turn(&few) < first + 60);
    }
}
