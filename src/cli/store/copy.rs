//! `sekisho store copy`

mod contents;
mod marker;
mod target;

use std::cmp::Ordering;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use sekisho_certs::seal::{KeyRing, Sealer};
use sekisho_stores::Url;

use self::contents::{Contents, Digested, Item, Summary};
use self::target::Target;
use crate::config::Config;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::terminal::{configuration, progress};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What is copied: the URL of a store, or a configuration (*.toml)
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to: the same; made if it is not there
    #[arg(value_name = "TO")]
    to: String,
}

pub(super) fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let mut own = None;
    let mut own = || match &own {
        Some(own) => Ok(Config::clone(own)),
        None => configuration::load(config).inspect(|read| own = Some(read.clone())),
    };
    let (mut from, mut to) = (side(&mut own, &args.from)?, side(&mut own, &args.to)?);
    from.hide(to.secret_variables());
    to.hide(from.secret_variables());
    open::runtime()?.block_on(async {
        let source = open::sealed(&from).await?;
        let (target, is_new) = open_target(&source, &to).await?;
        if is_new {
            open::tell_created(&to.store.url);
        }
        let begun = Instant::now();
        let copied = copy(&source, &target).await?;
        println!("from {}: {}", from.store.url, copied.from);
        println!("to   {}: {}", to.store.url, copied.to);
        Ok(copied.ended(begun))
    })
}

/// Opens the target store, or creates it. A new one seals under the source's
/// sealing key if its own ring has that key, else under its ring's first key.
/// Tells whether it is new.
pub(super) async fn open_target(source: &Sealer, to: &Config) -> Result<(Sealer, bool)> {
    let seals = source.seals_under().await?;
    let choose = |ring: &KeyRing| match ring.has(seals) {
        true => seals,
        false => ring.first(),
    };
    let (target, is_new) = open::create_under(to, choose).await?;
    if target.catalog().id().await? == source.catalog().id().await? {
        bail!("both are the same store, or one is a copy of the other's file");
    }
    Ok((target, is_new))
}

/// Result of a copy.
pub(super) struct Copied {
    pub(super) from: Summary,
    pub(super) to: Summary,
    /// Items that the source's writers changed during the comparison; they were
    /// copied, too.
    changed: usize,
    /// The first items that still differ.
    differing: Vec<Item>,
}

impl Copied {
    /// Reports whether both are equal.
    pub(super) fn ended(&self, begun: Instant) -> Ended {
        if self.differing.is_empty() {
            let seconds = begun.elapsed().as_secs_f64();
            let meanwhile = match self.changed {
                0 => String::new(),
                changed => format!("; {changed} items changed meanwhile and were copied too"),
            };
            println!("both are equal, after {seconds:.1} s{meanwhile}");
            return Ended::Done;
        }
        for item in &self.differing {
            eprintln!("differs: {item}");
        }
        eprintln!(
            "error: the stores still differ: something else writes the target, or the source \
             changes faster than it is read; stop that and run the same again"
        );
        Ended::PartlyRefused
    }
}

/// Makes the target equal to the source, which may be written meanwhile. It
/// compares both and copies the differences, until all differences come from
/// changes in the source's log.
pub(super) async fn copy(source: &Sealer, target: &Sealer) -> Result<Copied> {
    let mut target = Target::take(source, target).await?;
    let bar = progress::bar(|| None);
    let mut number = 0;
    loop {
        let round = round(source, &mut target, number == 0, &bar).await;
        let copied =
            round.context("stopped; what was copied stays, run the same again to go on")?;
        number += 1;
        if copied.differing.is_empty() || number == MAX_ROUNDS {
            bar.finish_and_clear();
            return Ok(copied);
        }
    }
}

/// Copies the changes of the log, compares everything, and copies what changed
/// meanwhile. No log announces lineages: those that differ behind the first
/// round changed meanwhile.
async fn round(
    source: &Sealer,
    target: &mut Target<'_>,
    is_first: bool,
    bar: &ProgressBar,
) -> Result<Copied> {
    target.follow().await?;
    bar.reset();
    let (mut from, mut to) = (Contents::of(source), Contents::of(target.target));
    let mut found = compare(&mut from, &mut to, target, bar).await?;
    let before = found.len();
    if let Some(changed) = target.follow().await?
        && before < MAX_DIFFERING
    {
        found.retain(|difference| match difference.item() {
            Item::Lineage(_) => is_first,
            item => !changed.contains(item),
        });
    }
    for Difference(one, other) in &found {
        one.iter().for_each(|one| from.add(one));
        other.iter().for_each(|other| to.add(other));
    }
    let items = found.iter().map(|difference| difference.item().clone());
    Ok(Copied {
        changed: before - found.len(),
        differing: items.take(MAX_NAMED).collect(),
        from: from.summary(),
        to: to.summary(),
    })
}

/// Item that differs, or is in one store only.
struct Difference(Option<Digested>, Option<Digested>);

impl Difference {
    fn item(&self) -> &Item {
        let Self(one, other) = self;
        let any = one.as_ref().or(other.as_ref());
        &any.expect("it is in one of them").item
    }
}

/// Compares both stores in order. Differing items are copied, and the first of
/// them noted; equal ones go into the digests.
async fn compare(
    from: &mut Contents<'_>,
    to: &mut Contents<'_>,
    target: &mut Target<'_>,
    bar: &ProgressBar,
) -> Result<Vec<Difference>> {
    let (mut found, mut batch) = (Vec::new(), Vec::new());
    let (mut one, mut other) = (from.next().await?, to.next().await?);
    loop {
        let order = match (&one, &other) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.item.cmp(&other.item),
        };
        let (mut this, mut that) = (None, None);
        if order.is_le() {
            this = mem::replace(&mut one, from.next().await?);
        }
        if order.is_ge() {
            that = mem::replace(&mut other, to.next().await?);
        }
        bar.inc(1);
        match (this, that) {
            (Some(this), Some(that)) if this == that => {
                from.add(&this);
                to.add(&that);
            }
            (this, that) => {
                let difference = Difference(this, that);
                batch.push(difference.item().clone());
                if found.len() < MAX_DIFFERING {
                    found.push(difference);
                }
            }
        }
        if batch.len() == BATCH {
            target.make_equal(&mem::take(&mut batch)).await?;
        }
    }
    target.make_equal(&batch).await?;
    Ok(found)
}

/// Parses FROM or TO: a URL with the configuration's keys, or another
/// configuration.
fn side(own: &mut dyn FnMut() -> Result<Config>, text: &str) -> Result<Config> {
    if Path::new(text).extension().is_some_and(|end| end == "toml") {
        return configuration::load(Some(Path::new(text)));
    }
    let folder = std::path::absolute(PathBuf::from("."))?;
    let url = Url::parse(text, &folder).map_err(Usage)?;
    let mut config = own()?;
    config.store = url.into();
    Ok(config)
}

/// Items per transaction, which must delay other writers little.
const BATCH: usize = 200;
/// Most rounds. The first copies, the second finds both equal unless others
/// write.
const MAX_ROUNDS: usize = 6;
/// Differing items that are kept, about 2 MB. With more, the stores are
/// compared again.
const MAX_DIFFERING: usize = 10_000;
/// Differing items that are named.
const MAX_NAMED: usize = 10;

const EXAMPLES: &str = "\
Both are sqlite: or postgres:// stores. FROM is served on meanwhile; its changes
are copied too. TO must be new, or a copy of FROM that nobody has written since:
then only what differs is copied, so run the same again after a stop, or to
catch up before servers move to TO. Credentials keep their ids, private keys are
sealed for TO, ticket keys come along. In the end both are compared: counts and
a digest over everything (exit code 1 if they differ).

A password in a URL is seen by others on this machine: better name a
configuration.

Examples:
  sekisho store copy sqlite:hosts.db postgres://sekisho@db/certs
  sekisho store copy old.toml new.toml";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sekisho_certs::seal::MasterKey;
    use sekisho_certs::store::{Precondition, Write};
    use sekisho_certs::{
        ChallengeKind, Challenges, Clock, Fence, HostPattern, HostRecord, KeyAuthorization,
        Lineage, Listed, Origin, Secret, Site, Tenant, ToClaim,
    };
    use sekisho_testkit::Memory;

    use super::*;

    async fn store() -> Sealer {
        let inner = Arc::new(Memory::new(Clock::System));
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        Sealer::create(inner, ring).await.expect("a store")
    }

    async fn put(store: &Sealer, name: &str, tenant: &str) {
        let pattern = HostPattern::parse(name).expect("a name");
        let mut host = HostRecord::new(pattern);
        host.tenant = Tenant::parse(tenant).expect("a tenant");
        let put = Write::PutHost(host, Precondition::Any);
        store.write(vec![put]).await.expect("it is written");
    }

    #[tokio::test]
    async fn what_differs_is_found_copied_and_named() {
        let (source, target) = (store().await, store().await);
        put(&source, "a.example", "anna").await;
        put(&source, "b.example", "anna").await;
        let copied = copy(&source, &target).await.expect("it is copied");
        assert_eq!(copied.ended(Instant::now()), Ended::Done);
        let mut taken = Target::take(&source, &target).await.expect("its copy");
        // A record that differs, one in the target alone, one in the source alone.
        put(&target, "a.example", "bert").await;
        put(&target, "c.example", "bert").await;
        put(&source, "0.example", "bert").await;
        let bar = ProgressBar::hidden();
        let followed = taken.follow().await.expect("a log");
        let pattern = HostPattern::parse("0.example").expect("a name");
        assert_eq!(followed, Some([Item::Host(pattern)].into()));
        let first = round(&source, &mut taken, false, &bar)
            .await
            .expect("a round");
        let named: Vec<_> = first.differing.iter().map(Item::to_string).collect();
        assert_eq!(named, ["host a.example", "host c.example"]);
        assert_ne!(first.from, first.to);
        assert_eq!(first.ended(Instant::now()), Ended::PartlyRefused);
        let second = round(&source, &mut taken, false, &bar)
            .await
            .expect("a round");
        assert!(second.differing.is_empty());
        assert_eq!(second.ended(Instant::now()), Ended::Done);
        // Another program wrote the target: it no longer counts as a copy.
        put(&target, "d.example", "bert").await;
        let error = copy(&source, &target).await.err().expect("it is refused");
        assert!(error.to_string().contains("was written since"), "{error}");
    }

    #[tokio::test]
    async fn lineages_are_copied_without_claims_and_challenges_are_not() {
        let (source, target) = (store().await, store().await);
        let pattern = HostPattern::parse("a.example").expect("a name");
        let mut lineage = Lineage::new(Tenant::default(), [pattern]).expect("a name");
        lineage.order = Some(Secret::new(b"order".to_vec()));
        let (kind, answer) = (ChallengeKind::Http01, KeyAuthorization::new("answer"));
        let challenge = Challenges::write(kind, "token", &answer, i64::MAX, Precondition::Any);
        let writes = vec![Write::PutLineage(lineage.clone(), Fence::Absent), challenge];
        source.write(writes).await.expect("it is written");
        let which = ToClaim::Named(vec![lineage.name.clone()]);
        let claim = source
            .catalog()
            .claim(which, "server", Duration::from_secs(9));
        assert_eq!(claim.await.expect("a claim").len(), 1);
        for there in [Some(lineage.clone()), None] {
            let copied = copy(&source, &target).await.expect("it is copied");
            assert_eq!(copied.ended(Instant::now()), Ended::Done);
            assert_eq!(copied.from, copied.to);
            let stored = target.catalog().list_lineages(Listed::All, None, 9).await;
            let mut stored = stored.expect("a list");
            assert_eq!(stored.len(), usize::from(there.is_some()));
            if let Some(stored) = stored.pop() {
                assert_eq!(target.open_lineage(stored).await.ok(), there);
            }
            let remove = Write::RemoveLineage(lineage.name.clone(), Fence::Any);
            source.write(vec![remove]).await.expect("it is written");
        }
        let other = Challenges::new(target, Clock::System);
        let answer = other.answer(ChallengeKind::Http01, "token").await;
        assert_eq!(answer.expect("an answer"), None);
    }

    #[tokio::test]
    async fn origins_and_suspensions_are_copied() {
        let (source, target) = (store().await, store().await);
        put(&source, "first.example", "anna").await;
        let mut host = HostRecord::new(HostPattern::parse("a.example").expect("a name"));
        host.origin = Some(Origin::new("/srv"));
        host.suspended = Some(Site {
            format: 1,
            json: "{}".into(),
        });
        let patterns = [host.pattern.clone()];
        let put = Write::PutHost(host, Precondition::Any);
        source.write(vec![put]).await.expect("it is written");
        let copied = copy(&source, &target).await.expect("it is copied");
        assert_eq!(copied.from, copied.to);
        let stored = target.catalog().hosts(&patterns).await;
        let stored = stored.expect("an answer").remove(0);
        assert_eq!(&*stored.origin.expect("an origin").source, "/srv");
        assert!(stored.suspended.is_some());
    }

    #[tokio::test]
    async fn two_copies_at_once_are_noticed() {
        let (source, target) = (store().await, store().await);
        let mut one = Target::take(&source, &target).await.expect("it is empty");
        let mut other = Target::take(&source, &target).await.expect("a copy of it");
        put(&source, "a.example", "anna").await;
        other.follow().await.expect("it is the last that took it");
        put(&source, "b.example", "anna").await;
        let error = one.follow().await.expect_err("it is refused");
        assert!(error.to_string().contains("by something else"), "{error}");
    }
}
