//! Makes certificates and stores of all rows before the first measurement.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::options::Options;
use super::rows::{Case, Row, Setup};
use super::workspace::Workspace;
use crate::fixtures::KeyKind;

/// Key kind and number of a row's certificates.
pub(crate) type StoreKey = (&'static str, usize);

pub(crate) fn store_of(options: &Options, row: &Row) -> StoreKey {
    (row.key.name(), row.hosts.count(options.is_short()))
}

/// Prepares all rows. A failure fails the cases that need the store, and no
/// others.
pub(crate) async fn prepare(
    options: &Options,
    workspace: &Workspace,
    rows: &[&Row],
) -> BTreeMap<StoreKey, Unprepared> {
    let mut wanted: BTreeMap<StoreKey, (KeyKind, bool)> = BTreeMap::new();
    // A simulation has no server, and needs no certificates.
    let simulated = |case: &Case| matches!(case.setup, Setup::Cache(_));
    for row in rows.iter().filter(|row| !row.cases.iter().all(simulated)) {
        let entry = wanted.entry(store_of(options, row));
        let (_, catalog) = entry.or_insert((row.key, false));
        *catalog |= row.needs_catalog();
    }
    let mut failed = BTreeMap::new();
    for (store, (key, catalog)) in wanted {
        if let Err(error) = workspace.prepare_fixture(key, store.1).await {
            failed.insert(store, Unprepared::Everything(format!("{error:#}")));
        } else if catalog && let Err(error) = catalogs(options, workspace, key, store.1).await {
            eprintln!("{} {} hosts: {error:#}", store.1, store.0);
            failed.insert(store, Unprepared::Catalog(format!("{error:#}")));
        }
    }
    failed
}

async fn catalogs(
    options: &Options,
    workspace: &Workspace,
    key: KeyKind,
    hosts: usize,
) -> Result<()> {
    for binary in options.binaries() {
        let made = workspace.prepare_catalog(options, *binary, key, hosts);
        made.await.with_context(|| {
            let program = options.program(*binary).display();
            format!("{program} cannot make its store")
        })?;
    }
    Ok(())
}

/// Store that could not be made, with the reason.
pub(crate) enum Unprepared {
    Everything(String),
    Catalog(String),
}

impl Unprepared {
    pub(crate) fn reason(&self, setup: Setup) -> Option<&str> {
        match self {
            Self::Everything(reason) => Some(reason),
            Self::Catalog(reason) => setup.reads_catalog().then_some(reason),
        }
    }
}
