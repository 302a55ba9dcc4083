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
use crate::config::secret::SecretSource;

type Result<T> = std::result::Result<T, Problem>;

/// CA whose secret is not read yet.
pub(super) type Ca = (CaOptions, Option<External>);

/// Checks all CAs; returns those of the list in its order.
pub(super) fn check(raw: &RawAcme, base: &Path) -> Result<Vec<Ca>> {
    let (cas, tables) = (&raw.cas, &raw.ca);
    let mut described = BTreeMap::new();
    for (name, raw) in tables {
        described.insert(name.as_str(), one(name, raw, base)?);
    }
    if cas.is_empty() {
        let text = "is missing; write cas = [\"letsencrypt\"]";
        return Err(Problem::at(&["acme", "cas"], text));
    }
    let mut used = Vec::new();
    for (index, name) in cas.iter().enumerate() {
        let at = |text| Problem::at(&["acme", "cas", &index.to_string()], text);
        if cas[..index].contains(name) {
            return Err(at(format!("{name:?} stands twice")));
        }
        let found = described.remove(name.as_str());
        let found = found.or_else(|| Some((CaOptions::builtin(name)?, None)));
        used.push(found.ok_or_else(|| at(unknown(name, tables)))?);
    }
    Ok(used)
}

fn unknown(name: &str, tables: &BTreeMap<String, RawCa>) -> String {
    let mut known: Vec<_> = builtin_names().collect();
    let own = tables.keys().map(String::as_str);
    known.extend(own.filter(|name| CaSettings::builtin(name).is_none()));
    let known = known.join(", ");
    format!("{name:?} is no known CA; write one of {known}, or describe it in [acme.ca.NAME]")
}

fn one(name: &str, raw: &RawCa, base: &Path) -> Result<Ca> {
    let at = |key: &'static str| move |text: String| Problem::at(&["acme", "ca", name, key], text);
    if !is_name(name) {
        let text = format!(
            "{name:?} is no name of a CA; it begins with a letter, and has up to 64 of a-z, 0-9 \
             and -"
        );
        return Err(Problem::at(&["acme", "ca", name], text));
    }
    let mut options = match (CaOptions::builtin(name), &raw.directory) {
        (Some(options), None) => options,
        (Some(_), Some(_)) => {
            let text = format!("{name} is built in; give a CA elsewhere another name");
            return Err(at("directory")(text));
        }
        (None, Some(url)) if url.starts_with("https://") => CaOptions::new(CaSettings {
            name: name.to_owned(),
            directory: url.clone(),
            root: None,
            deadline: CaSettings::DEADLINE,
        }),
        (None, Some(url)) => return Err(at("directory")(format!("{url:?} is no https:// URL"))),
        (None, None) => {
            let text = "is missing; write directory = \"https://…\", the URL of the CA's directory";
            return Err(at("directory")(text.into()));
        }
    };
    let root = raw.ca.as_deref().map(|path| path_below(base, path));
    options.ca.root = root.transpose().map_err(at("ca"))?;
    options.profile = given(raw.profile.as_ref()).map_err(at("profile"))?;
    options.chain = given(raw.chain.as_ref()).map_err(at("chain"))?;
    if let Some(raw) = &raw.quotas {
        options.quotas = quotas(name, raw, &options.quotas)?;
    }
    Ok((options, external(name, raw, base)?))
}

fn external(name: &str, raw: &RawCa, base: &Path) -> Result<Option<External>> {
    let at = |key: &'static str| move |text: String| Problem::at(&["acme", "ca", name, key], text);
    let id = given(raw.eab_id.as_ref()).map_err(at("eab_id"))?;
    match (id, &raw.eab_key) {
        (None, None) => Ok(None),
        (Some(id), Some(key)) => {
            let key = SecretSource::parse(key, base).map_err(at("eab_key"))?;
            Ok(Some(External { id, key }))
        }
        (Some(_), None) => Err(at("eab_id")("only together with eab_key".into())),
        (None, Some(_)) => Err(at("eab_key")("only together with eab_id".into())),
    }
}

/// Limits that are left out don't exist. What the CA exempts stays as it was.
fn quotas(ca: &str, raw: &RawQuotas, builtin: &Quotas) -> Result<Quotas> {
    let limit = |key, text: &Option<String>| {
        let text = text.as_deref();
        let limit = text.map(|text| limit(text).ok_or_else(|| format!("{text:?} {LIMIT}")));
        limit
            .transpose()
            .map_err(|text| Problem::at(&["acme", "ca", ca, "quotas", key], text))
    };
    Ok(Quotas {
        orders: limit("orders", &raw.orders)?,
        domains: limit("domains", &raw.domains)?,
        duplicates: limit("duplicates", &raw.duplicates)?,
        failures: limit("failures", &raw.failures)?,
        exempt: builtin.exempt,
    })
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

fn given(text: Option<&String>) -> std::result::Result<Option<String>, String> {
    match text {
        Some(text) if text.trim().is_empty() => Err("must not be empty; leave the key out".into()),
        text => Ok(text.cloned()),
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
