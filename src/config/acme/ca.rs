//! Checks `[acme] cas` and `[acme.ca.NAME]`.

use std::collections::BTreeMap;
use std::path::Path;

use sekisho_issuance::acme::{CaSettings, builtin_names};
use sekisho_issuance::quota::{Limit, Quotas};
use sekisho_issuance::settings::CaOptions;
use sekisho_server::value::Unit;
use sekisho_stores::url::path_below;

use super::External;
use super::raw::{RawAcme, RawCa, RawQuotas};
use crate::config::locate::Problem;
use crate::config::problems::Problems;
use crate::config::secret::SecretSource;

/// CA whose secret is not read yet.
pub(super) type Ca = (CaOptions, Option<External>);

/// Checks all CAs; returns those of the list in its order.
pub(super) fn check(raw: &RawAcme, base: &Path, problems: &mut Problems) -> Vec<Ca> {
    let (cas, tables) = (&raw.cas, &raw.ca);
    let mut described = BTreeMap::new();
    for (name, raw) in tables {
        if let Some(ca) = one(name, raw, base, problems) {
            described.insert(name.as_str(), ca);
        }
    }
    if cas.is_empty() {
        let text = "is missing; write cas = [\"letsencrypt\"]";
        problems.add_missing(&["acme", "cas"], text);
    }
    let mut used = Vec::new();
    for (index, name) in cas.iter().enumerate() {
        let at = |text| Problem::at(&["acme", "cas", &index.to_string()], text);
        if cas[..index].contains(name) {
            problems.add(at(format!("{name:?} stands twice")));
            continue;
        }
        let builtin = || CaOptions::builtin(name).map(|options| (options, None));
        let described = described.remove(name.as_str());
        match described.or_else(builtin) {
            Some(ca) => used.push(ca),
            // The name may be that of a table that is wrong.
            None => problems.add_lack(&["acme", "ca", name], at(unknown(name, tables))),
        }
    }
    used
}

fn unknown(name: &str, tables: &BTreeMap<String, RawCa>) -> String {
    let mut known: Vec<_> = builtin_names().collect();
    let own = tables.keys().map(String::as_str);
    known.extend(own.filter(|name| CaSettings::builtin(name).is_none()));
    let known = known.join(", ");
    format!("{name:?} is no known CA; write one of {known}, or describe it in [acme.ca.NAME]")
}

fn one(name: &str, raw: &RawCa, base: &Path, problems: &mut Problems) -> Option<Ca> {
    if !is_name(name) {
        let text = format!(
            "{name:?} is no name of a CA; it begins with a letter, and has up to 64 of a-z, 0-9 \
             and -"
        );
        problems.add(Problem::at(&["acme", "ca", name], text));
    }
    let place = |key| ["acme", "ca", name, key];
    let options = options(name, raw, problems);
    let root = problems.parsed(&place("ca"), raw.ca.as_ref(), |path| path_below(base, path));
    let profile = problems.parsed(&place("profile"), raw.profile.as_ref(), given);
    let chain = problems.parsed(&place("chain"), raw.chain.as_ref(), given);
    let external = external(name, raw, base, problems);
    let builtin = options
        .as_ref()
        .map_or_else(Quotas::default, |known| known.quotas);
    let own = raw.quotas.as_ref();
    let quotas = own.map_or(builtin, |raw| quotas(name, raw, &builtin, problems));
    let mut options = options?;
    options.ca.root = root;
    options.profile = profile;
    options.chain = chain;
    options.quotas = quotas;
    Some((options, external))
}

/// Returns what is known of a built-in CA, or the directory of another.
fn options(name: &str, raw: &RawCa, problems: &mut Problems) -> Option<CaOptions> {
    let text = match (CaOptions::builtin(name), &raw.directory) {
        (Some(options), None) => return Some(options),
        (Some(_), Some(_)) => format!("{name} is built in; give a CA elsewhere another name"),
        (None, Some(url)) if url.starts_with("https://") => {
            return Some(CaOptions::new(CaSettings {
                name: name.to_owned(),
                directory: url.clone(),
                root: None,
                deadline: CaSettings::DEADLINE,
            }));
        }
        (None, Some(url)) => format!("{url:?} is no https:// URL"),
        (None, None) => {
            "is missing; write directory = \"https://…\", the URL of the CA's directory".into()
        }
    };
    problems.add_missing(&["acme", "ca", name, "directory"], &text);
    None
}

fn external(name: &str, raw: &RawCa, base: &Path, problems: &mut Problems) -> Option<External> {
    let place = |key| ["acme", "ca", name, key];
    let alone = match (&raw.eab_id, &raw.eab_key) {
        (Some(_), None) => Some(("eab_id", "eab_key")),
        (None, Some(_)) => Some(("eab_key", "eab_id")),
        _ => None,
    };
    if let Some((key, other)) = alone {
        let problem = Problem::at(&place(key), format!("only together with {other}"));
        problems.add_lack(&place(other), problem);
    }
    let id = problems.parsed(&place("eab_id"), raw.eab_id.as_ref(), given);
    let key = problems.parsed(&place("eab_key"), raw.eab_key.as_ref(), |key| {
        SecretSource::parse(key, base)
    });
    id.zip(key).map(|(id, key)| External { id, key })
}

/// Limits that are left out don't exist. What the CA exempts stays as it was.
fn quotas(ca: &str, raw: &RawQuotas, builtin: &Quotas, problems: &mut Problems) -> Quotas {
    let mut limit = |key, text: &Option<String>| {
        let parse = |text: &str| limit(text).ok_or_else(|| format!("{text:?} {LIMIT}"));
        problems.parsed(&["acme", "ca", ca, "quotas", key], text.as_ref(), parse)
    };
    Quotas {
        orders: limit("orders", &raw.orders),
        domains: limit("domains", &raw.domains),
        duplicates: limit("duplicates", &raw.duplicates),
        failures: limit("failures", &raw.failures),
        exempts_renewals: builtin.exempts_renewals,
    }
}

/// Reads `300 per 3h`.
fn limit(text: &str) -> Option<Limit> {
    let (count, period) = text.split_once(" per ")?;
    let count = Unit::Count.parse(count).ok()?;
    let period = Unit::Time.parse(period).ok()?;
    let in_range = (1..=MAX_COUNT).contains(&count) && (1_000..=MAX_PERIOD).contains(&period);
    let count = u32::try_from(count).ok().filter(|_| in_range)?;
    Limit::new(count, u32::try_from(period / 1_000).ok()?)
}

fn given(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("must not be empty; leave the key out".into()),
        false => Ok(text.to_owned()),
    }
}

/// A digit in front would look like an index in messages.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= 64
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

const LIMIT: &str = "is no limit; write a count of 1 to 1000000 and a period of 1s to 366d, such \
                     as \"300 per 3h\"";
const MAX_COUNT: u64 = 1_000_000;
/// Milliseconds.
const MAX_PERIOD: u64 = 366 * 86_400_000;
