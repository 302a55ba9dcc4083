//! Final comparison of the catalog with the writes, and of each server with the
//! catalog.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::sleep;

use super::authority;
use super::field::Field;
use super::judge::Seen;
use super::ledger::{HEALED, State};
use super::plan::SERVERS;
use super::setting::{DOWNLOADS, Setting};

/// Waits until all changes have arrived, and compares. The writers have ended.
pub(crate) async fn compare(field: &Field, setting: &Setting) -> Result<()> {
    println!(
        "[{:6.1} s] comparing catalog and servers",
        field.now().as_secs_f64()
    );
    sleep(HEALED).await;
    let found = catalog(setting).await?;
    field.judge.borrow_mut().database(&found);
    let hosts: Vec<_> = field
        .judge
        .borrow()
        .ledger
        .hosts()
        .map(str::to_owned)
        .collect();
    for host in &hosts {
        let last = found.get(host).and_then(|generations| generations.last());
        let state = last.map_or(State::Absent, |number| State::Generation(*number));
        for server in 0..SERVERS {
            last_look(field, server, host, state).await?;
        }
    }
    Ok(())
}

/// Visits a host on a server. A second visit follows a failed one: a momentary
/// failure is no lost write.
async fn last_look(field: &Field, server: usize, host: &str, state: State) -> Result<()> {
    let mut visit = field.look(server, host).await.context("it serves")?;
    if matches!(visit.seen, Seen::Failed(_)) {
        field.judge.borrow_mut().visit(&visit);
        visit = field.look(server, host).await.context("it serves")?;
    }
    field.judge.borrow_mut().at_the_end(&visit, state);
    Ok(())
}

/// Returns the generations of all hosts, as the commands list them.
async fn catalog(setting: &Setting) -> Result<BTreeMap<String, Vec<u64>>> {
    let hosts = list(setting, "host").await?;
    let mut found: BTreeMap<_, Vec<_>> = hosts
        .iter()
        .filter_map(|host| Some((host["name"].as_str()?.to_owned(), Vec::new())))
        .collect();
    for credential in list(setting, "cert").await? {
        let (host, generation) = named(&credential).context("a certificate of the catalog")?;
        found.entry(host).or_default().push(generation);
    }
    found.remove(DOWNLOADS);
    Ok(found)
}

async fn list(setting: &Setting, what: &str) -> Result<Vec<Value>> {
    Ok(serde_json::from_slice(
        &setting.run(&[what, "list", "--json"]).await?,
    )?)
}

fn named(credential: &Value) -> Option<(String, u64)> {
    let host = credential["names"][0].as_str()?.to_owned();
    let serial = u64::from_str_radix(credential["serial"].as_str()?, 16).ok()?;
    let generation = authority::generation(&serial.to_be_bytes()).ok()?;
    Some((host, generation))
}
