//! Completes a store that an older program made: hosts get the names by which lists find
//! them below a domain, and lists their indexes. Servers serve meanwhile.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::indexes::INDEXES;
use sekisho_certs::store::Result;

/// Step of an upgrade.
#[derive(Clone, Copy, Debug)]
pub enum UpgradeStep {
    /// So many hosts got their names so far.
    Named(u64),
    /// An index is being built.
    Builds(&'static str),
    /// An index was built in this time.
    Built(&'static str, Duration),
}

/// Catalog that can be completed. Each call is whole by itself, so that an upgrade that was
/// stopped goes on when it is started again.
pub(crate) trait Upgrade {
    /// Lists the names of all indexes that are whole.
    async fn indexes(&self) -> Result<Vec<String>>;

    /// Reads some hosts without a name that come after a pattern: their patterns, in order,
    /// and the names that they must get.
    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>>;

    /// Gives hosts their names, unless they have one. That is no change: it takes no number,
    /// and a host keeps its version.
    async fn name(&self, hosts: Vec<(String, String)>) -> Result<()>;

    /// Builds an index that lacks, or is there and not whole.
    async fn build(&self, name: &'static str, place: &'static str) -> Result<()>;
}

/// Completes a store, and returns how many indexes it has then for lists.
pub(crate) async fn complete(
    store: &impl Upgrade,
    progress: &mut dyn FnMut(UpgradeStep),
) -> Result<usize> {
    let there = store.indexes().await?;
    let lacks = |name: &str| !there.iter().any(|one| one == name);
    // Before the indexes: each name would be a write to them, too. What older programs write
    // afterwards is named by the list that meets it.
    if lacks(OF_NAMES) {
        name_hosts(store, progress).await?;
    }
    for (name, place) in INDEXES.into_iter().filter(|(name, _)| lacks(name)) {
        let begun = Instant::now();
        progress(UpgradeStep::Builds(name));
        store.build(name, place).await?;
        progress(UpgradeStep::Built(name, begun.elapsed()));
    }
    Ok(INDEXES.len())
}

async fn name_hosts(store: &impl Upgrade, progress: &mut dyn FnMut(UpgradeStep)) -> Result<()> {
    let (mut after, mut named) = (String::new(), 0);
    loop {
        let unnamed = store.unnamed(after).await?;
        let Some((last, _)) = unnamed.last() else {
            return Ok(());
        };
        after = last.clone();
        named += unnamed.len() as u64;
        let begun = Instant::now();
        store.name(unnamed).await?;
        progress(UpgradeStep::Named(named));
        // Leaves half of the time to those who write.
        sleep(begun.elapsed()).await;
    }
}

/// Index of the hosts that have names.
const OF_NAMES: &str = "hosts_by_name";
