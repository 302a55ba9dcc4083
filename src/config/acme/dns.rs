//! Checks `[acme.dns."ZONE"]`.

use std::collections::BTreeMap;
use std::path::Path;

use sekisho_certs::HostName;
use sekisho_issuance::solver::dns01::Check;
use sekisho_stores::url::path_below;

use super::raw::RawZone;
use super::{Way, Zone};
use crate::config::keys::{ZONE, key};
use crate::config::locate::Problem;
use crate::config::name_server::name_server;
use crate::config::secret::SecretSource;

type Result<T> = std::result::Result<T, Problem>;

pub(super) fn check(tables: &BTreeMap<String, RawZone>, base: &Path) -> Result<Vec<Zone>> {
    let zone = |(name, raw): (&String, &RawZone)| {
        let path = ["acme", "dns", name.as_str(), "propagation_timeout"];
        let wait = key(ZONE, "propagation_timeout").time(raw.propagation_timeout.as_ref());
        Ok(Zone {
            zone: parsed(name).map_err(|text| Problem::at(&["acme", "dns", name], text))?,
            way: way(name, raw, base)?,
            wait: wait.map_err(|problem| problem.moved(&path))?,
            check: checked(name, raw)?,
        })
    };
    tables.iter().map(zone).collect()
}

/// Reads which servers are asked for a record.
fn checked(zone: &str, raw: &RawZone) -> Result<Check> {
    let at = |text: String| Problem::at(&["acme", "dns", zone, "servers"], text);
    match (raw.check, raw.servers.is_empty()) {
        (Some(false), true) => Ok(Check::Off),
        (Some(false), false) => Err(at("only with check = true; leave the key out".into())),
        (None | Some(true), true) => Ok(Check::Authoritative),
        (None | Some(true), false) => {
            let addresses = raw.servers.iter().map(|text| name_server(text));
            let addresses: std::result::Result<_, _> = addresses.collect();
            Ok(Check::At(addresses.map_err(at)?))
        }
    }
}

/// Takes a name in the one form that other messages repeat.
fn parsed(name: &str) -> std::result::Result<HostName, String> {
    let zone = HostName::parse(name).map_err(|error| format!("{name:?} is no zone: {error}"))?;
    if zone.as_str() != name {
        return Err(format!("write this zone as \"{zone}\""));
    }
    Ok(zone)
}

fn way(zone: &str, raw: &RawZone, base: &Path) -> Result<Way> {
    let at = |key: &'static str| move |text: String| Problem::at(&["acme", "dns", zone, key], text);
    belongs(zone, raw)?;
    match (&raw.exec, &raw.webhook, &raw.rfc2136) {
        (Some(program), None, None) => {
            Ok(Way::Exec(path_below(base, program).map_err(at("exec"))?))
        }
        (None, Some(url), None) => {
            let root = raw.ca.as_deref().map(|path| path_below(base, path));
            let login = match (&raw.user, &raw.password) {
                (Some(user), Some(password)) => {
                    let source = SecretSource::parse(password, base);
                    Some((user.clone(), source.map_err(at("password"))?))
                }
                (None, None) => None,
                (Some(_), None) => return Err(at("user")("only together with password".into())),
                (None, Some(_)) => return Err(at("password")("only together with user".into())),
            };
            Ok(Way::Webhook {
                url: url.clone(),
                root: root.transpose().map_err(at("ca"))?,
                login,
            })
        }
        (None, None, Some(server)) => {
            let Some(tsig) = &raw.tsig else {
                let text = "is missing: updates are signed; write tsig = \"file:PATH\"";
                return Err(at("tsig")(text.into()));
            };
            Ok(Way::Rfc2136 {
                server: name_server(server).map_err(at("rfc2136"))?,
                tsig: SecretSource::parse(tsig, base).map_err(at("tsig"))?,
            })
        }
        _ => Err(Problem::at(
            &["acme", "dns", zone],
            "write exactly one of exec, webhook and rfc2136",
        )),
    }
}

/// Refuses keys of a way that is not chosen.
fn belongs(zone: &str, raw: &RawZone) -> Result<()> {
    for (key, is_given, way, is_chosen) in [
        ("tsig", raw.tsig.is_some(), "rfc2136", raw.rfc2136.is_some()),
        ("ca", raw.ca.is_some(), "webhook", raw.webhook.is_some()),
        ("user", raw.user.is_some(), "webhook", raw.webhook.is_some()),
        (
            "password",
            raw.password.is_some(),
            "webhook",
            raw.webhook.is_some(),
        ),
    ] {
        if is_given && !is_chosen {
            let text = format!("only together with {way}; leave the key out");
            return Err(Problem::at(&["acme", "dns", zone, key], text));
        }
    }
    Ok(())
}
