//! `[hook]`: the operator's script that chooses what handshakes get.
#![cfg_attr(
    not(feature = "hook"),
    expect(dead_code, reason = "a build without the feature refuses the section")
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "hook")]
use sekisho_hook::OnError;
use sekisho_stores::postgres;
use sekisho_stores::url::path_below;
use serde::Deserialize;

use super::keys::key;
use super::locate::Problem;
use super::problems::Problems;

/// Keys of `[hook]`, as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawHook {
    script: Option<String>,
    folders: Vec<String>,
    on_error: Option<String>,
    memory: Option<String>,
    cpu: Option<String>,
    timeout: Option<String>,
    waiting: Option<i64>,
    ca: Option<String>,
    sql: BTreeMap<String, String>,
}

/// Checked `[hook]`.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// `script`: file of the script.
    pub(crate) script: PathBuf,
    /// `folders`: folders below which scripts read certificates and keys.
    pub(crate) folders: Vec<PathBuf>,
    /// `on_error`: what a handshake gets whose run failed.
    #[cfg(feature = "hook")]
    pub(crate) on_error: OnError,
    /// `memory`: bytes of each worker's Luau state.
    pub(crate) memory: usize,
    /// `cpu`: CPU time of one run.
    pub(crate) cpu: Duration,
    /// `timeout`: limit of one run with its waits.
    pub(crate) timeout: Duration,
    /// `waiting`: runs that wait at once.
    pub(crate) waiting: usize,
    /// `ca`: file of the only authorities that `http.get` trusts.
    pub(crate) ca: Option<PathBuf>,
    /// `[hook.sql]`: databases by the names that scripts use.
    pub(crate) sql: BTreeMap<String, postgres::Url>,
}

impl Hook {
    /// Bytes of what scripts keep with `cache:set`.
    pub(crate) const CACHE: usize = 4 << 20;

    /// Returns how many of the runs that wait may be those of one prefix: an eighth of
    /// `waiting`, and where that is little, 128.
    pub(crate) fn waiting_per_prefix(&self) -> usize {
        (self.waiting / 8).max(128).min(self.waiting)
    }
}

/// Checks the section.
pub(super) fn check(raw: &RawHook, base: &Path, problems: &mut Problems) -> Option<Hook> {
    if cfg!(not(feature = "hook")) {
        let text = "this program was built without the feature \"hook\"; leave the section out";
        problems.add(Problem::at(&["hook"], text));
        return None;
    }
    let key = |name| key("hook", name);
    let below = |path: &str| path_below(base, path);
    if raw.script.is_none() {
        let text = "is missing; write script = \"handshake.luau\"";
        problems.add_missing(&["hook", "script"], text);
    }
    let script = problems.parsed(&["hook", "script"], raw.script.as_ref(), below);
    #[cfg(feature = "hook")]
    let on_error = problems.parsed(&["hook", "on_error"], raw.on_error.as_ref(), on_error);
    Some(Hook {
        script: script.unwrap_or_default(),
        folders: problems.list("hook", "folders", &raw.folders, below),
        #[cfg(feature = "hook")]
        on_error: on_error.unwrap_or_default(),
        memory: problems.or_default(key("memory").bytes(raw.memory.as_ref())),
        cpu: problems.or_default(key("cpu").time(raw.cpu.as_ref())),
        timeout: problems.or_default(key("timeout").time(raw.timeout.as_ref())),
        waiting: problems.or_default(key("waiting").count(raw.waiting)),
        ca: problems.parsed(&["hook", "ca"], raw.ca.as_ref(), below),
        sql: databases(&raw.sql, base, problems),
    })
}

fn databases(
    urls: &BTreeMap<String, String>,
    base: &Path,
    problems: &mut Problems,
) -> BTreeMap<String, postgres::Url> {
    let databases = urls.iter().filter_map(|(name, url)| {
        let parse = |url: &str| postgres::Url::parse(url, base);
        let url = problems.parsed(&["hook", "sql", name], Some(url), parse)?;
        Some((name.clone(), url))
    });
    databases.collect()
}

#[cfg(feature = "hook")]
fn on_error(text: &str) -> Result<OnError, String> {
    match text {
        "refuse" => Ok(OnError::Refuse),
        "lookup" => Ok(OnError::Lookup),
        "default" => Ok(OnError::Default),
        _ => Err(format!(
            "{text:?} is no policy; write \"refuse\", \"lookup\" or \"default\""
        )),
    }
}
