//! Lists need more than the tables: indexes, and names of hosts with their labels reversed. A
//! new store has both. `sekisho store upgrade` completes a store of an older program; no start
//! of a server does, since that takes seconds of a writer's lock.

use std::time::Instant;

use tokio::time::sleep;

use sekisho_certs::store::{Result, StoreError};

/// Store whose lists can be completed. Each call is whole by itself, so that an upgrade that
/// was stopped goes on when it is started again.
pub(crate) trait Upgrade {
    /// Lists the names of all indexes that are whole.
    async fn indexes(&self) -> Result<Vec<String>>;

    /// Reads some hosts without a name that come after a pattern: their patterns, in order,
    /// and the names that they must get.
    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>>;

    /// Gives hosts their names, unless they have one. That is no change: it takes no number,
    /// and a host keeps its version.
    async fn name(&self, hosts: Vec<(String, String)>) -> Result<()>;

    /// Builds one of [`INDEXES`] that lacks, or is there and not whole.
    async fn build(&self, index: &'static str) -> Result<()>;
}

/// Completes a store, and says what it does.
pub(crate) async fn complete(store: &impl Upgrade, say: &mut dyn FnMut(String)) -> Result<()> {
    let there = store.indexes().await?;
    let lacks = |index: &str| !there.iter().any(|one| one == index);
    // Before the indexes: each name would be a write to them, too. What older programs write
    // afterwards is named by the list that meets it.
    if lacks(OF_NAMES) {
        let named = name_hosts(store).await?;
        say(format!("{named} hosts: names for --under stored"));
    }
    for index in INDEXES {
        let name = index.split(' ').next().unwrap_or(index);
        if lacks(name) {
            say(format!("building {name}"));
            store.build(index).await?;
        }
    }
    say(format!("the store is complete: {} indexes", INDEXES.len()));
    Ok(())
}

/// Makes sure that a list has its index, and this index all hosts.
pub(crate) async fn require_index(store: &impl Upgrade, index: &str) -> Result<()> {
    if index.is_empty() {
        return Ok(());
    }
    if !store.indexes().await?.iter().any(|one| one == index) {
        let text = format!(
            "this list needs the index {index}; 'sekisho store upgrade' builds it while servers \
             serve"
        );
        return Err(StoreError::Refused(text.into()));
    }
    if index == OF_NAMES {
        name_hosts(store).await?;
    }
    Ok(())
}

async fn name_hosts(store: &impl Upgrade) -> Result<usize> {
    let (mut after, mut named) = (String::new(), 0);
    loop {
        let unnamed = store.unnamed(after).await?;
        let Some((last, _)) = unnamed.last() else {
            return Ok(named);
        };
        after = last.clone();
        named += unnamed.len();
        let begun = Instant::now();
        store.name(unnamed).await?;
        // Leaves half of the time to those who write.
        sleep(begun.elapsed()).await;
    }
}

/// Indexes: name, table, columns and rows. A statement names the condition of the rows as
/// well, or neither database takes the index.
///
/// They are built in this order: where [`OF_NAMES`] is, `hosts_unnamed` is too.
pub(crate) const INDEXES: [&str; 9] = [
    "hosts_by_tenant ON hosts (tenant, pattern)",
    "hosts_unnamed ON hosts (pattern) WHERE reversed IS NULL",
    "hosts_by_name ON hosts (reversed) WHERE reversed IS NOT NULL",
    "hosts_without_certificate ON hosts (pattern)
        WHERE ecdsa IS NULL AND ed25519 IS NULL AND rsa IS NULL",
    "hosts_by_origin ON hosts (origin, pattern) WHERE origin IS NOT NULL",
    "hosts_suspended ON hosts (pattern) WHERE suspended IS NOT NULL",
    "credentials_by_end ON credentials (not_after, id)",
    "credentials_by_origin ON credentials (origin, id) WHERE origin IS NOT NULL",
    "lineages_without_certificate ON lineages (name) WHERE credential IS NULL",
];
/// Index of the hosts that have names.
const OF_NAMES: &str = "hosts_by_name";
