//! Defaults of keys that the file leaves out.

use std::path::Path;

use sekisho_certs::seal::KeySource;
use sekisho_issuance::quota::Limit;
use sekisho_issuance::settings::CaOptions;
use sekisho_server::value::Unit;
use serde_json::Value;

use super::super::keys::{KEYS, WORDS, ZONE};
use crate::config::Config;

/// Returns the default of the key at `path`, which the file leaves out; none if it has none.
pub(super) fn default(config: &Config, path: &[&str]) -> Option<Value> {
    let limits = &config.limits;
    match path {
        ["listen", "public_port"] => {
            // Port 0 is any port that is free at the start.
            let port = config.listen.https.first()?.port();
            (port != 0).then(|| port.into())
        }
        ["keys", "master"] => match config.keys.as_ref()? {
            KeySource::File(file) => Some(format!("file:{}", shown(file)).into()),
            KeySource::Env(_) | KeySource::Command { .. } => None,
        },
        ["cache", "disk"] => {
            let disk = config.cache.disk.as_ref();
            Some(disk.map_or_else(|| "off".into(), |disk| shown(&disk.path).into()))
        }
        ["sites", "allow"] => Some(config.allowed.texts().into()),
        // Of use with `access` alone, and refused without.
        ["log", "format"] if config.access_log.is_none() => None,
        ["server", "workers"] => Some(limits.workers.into()),
        ["server", "loads_per_prefix"] => Some(limits.loads_per_prefix.into()),
        ["acme", "solvers"] => {
            let solvers = config.acme.iter().flat_map(|acme| &acme.settings.solvers);
            Some(solvers.map(|solver| solver.as_str()).collect())
        }
        ["acme", "ca", name, key @ ..] => built_in(name, key),
        ["acme", "dns", _, name] => listed(ZONE, name),
        [section, name] => listed(section, name),
        _ => None,
    }
}

/// Returns what is known of a CA that is built in.
fn built_in(ca: &str, key: &[&str]) -> Option<Value> {
    let known = CaOptions::builtin(ca)?;
    let quotas = known.quotas;
    let limit = match key {
        ["directory"] => return Some(known.ca.directory.into()),
        ["quotas", "orders"] => quotas.orders,
        ["quotas", "domains"] => quotas.domains,
        ["quotas", "duplicates"] => quotas.duplicates,
        ["quotas", "failures"] => quotas.failures,
        _ => None,
    };
    limit.map(|limit| written(limit).into())
}

/// Writes a limit as the configuration has it.
fn written(limit: Limit) -> String {
    let period = Unit::Time.display(u64::from(limit.period()) * 1000);
    format!("{} per {period}", limit.count())
}

/// Returns a default that does not depend on other keys.
fn listed(section: &str, name: &str) -> Option<Value> {
    let mut words = WORDS.iter();
    if let Some((_, _, word)) = words.find(|(of, key, _)| (*of, *key) == (section, name)) {
        return Some(match *word {
            "true" => true.into(),
            "false" => false.into(),
            word => word.into(),
        });
    }
    let key = KEYS
        .iter()
        .find(|key| (key.section, key.name) == (section, name))?;
    let text = key.default?;
    Some(match key.unit {
        Unit::Count => text.parse::<u64>().ok()?.into(),
        Unit::Bytes | Unit::Time => text.into(),
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
