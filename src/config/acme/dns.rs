//! Checks `[acme.dns."ZONE"]`.

use std::collections::BTreeMap;
use std::path::Path;

use sekisho_certs::HostName;
use sekisho_issuance::solver::dns01::Check;
use sekisho_stores::url::path_below;

use super::raw::RawZone;
use super::serve::{self, Serve};
use super::{DnsMethod, Zone};
use crate::config::keys::{ZONE, key};
use crate::config::locate::Problem;
use crate::config::name_server::name_server;
use crate::config::problems::Problems;
use crate::config::secret::SecretSource;

/// Checks the zones, of which at most one is served.
pub(super) fn check(
    tables: &BTreeMap<String, RawZone>,
    base: &Path,
    problems: &mut Problems,
) -> (Vec<Zone>, Option<Serve>) {
    let mut served = tables.iter().filter(|(_, raw)| raw.serve.is_some());
    let serve = served.next();
    let serve = serve.and_then(|(name, raw)| serve::check(name, raw, problems));
    for (name, _) in served {
        let text = "another zone is served already; one has the names of all hosts";
        problems.add(Problem::at(&["acme", "dns", name, "serve"], text));
    }
    let zone = |(name, raw): (&String, &RawZone)| {
        let place = ["acme", "dns", name.as_str(), "propagation_timeout"];
        let wait = key(ZONE, "propagation_timeout").time(raw.propagation_timeout.as_ref());
        let wait = problems.or_default(wait.map_err(|problem| Problem::at(&place, problem.text)));
        let check = problems.or_default(checked(name, raw));
        let method = method(name, raw, base, problems);
        let zone = problems.parsed(&["acme", "dns", name], Some(name), parsed);
        Some(Zone {
            zone: zone?,
            method: method?,
            wait,
            check,
        })
    };
    let written = tables.iter().filter(|(_, raw)| raw.serve.is_none());
    (written.filter_map(zone).collect(), serve)
}

/// Reads which servers are asked for a record.
fn checked(zone: &str, raw: &RawZone) -> Result<Check, Problem> {
    let at = |text: String| Problem::at(&["acme", "dns", zone, "servers"], text);
    match (raw.check, raw.servers.is_empty()) {
        (Some(false), true) => Ok(Check::Off),
        (Some(false), false) => Err(at("only with check = true; leave the key out".into())),
        (None | Some(true), true) => Ok(Check::Authoritative),
        (None | Some(true), false) => {
            let addresses = raw.servers.iter().map(|text| name_server(text));
            let addresses: Result<_, _> = addresses.collect();
            Ok(Check::At(addresses.map_err(at)?))
        }
    }
}

/// Takes a name in the one form that other messages repeat.
pub(super) fn parsed(name: &str) -> Result<HostName, String> {
    let zone = HostName::parse(name).map_err(|error| format!("{name:?} is no zone: {error}"))?;
    if zone.as_str() != name {
        return Err(format!("write this zone as \"{zone}\""));
    }
    Ok(zone)
}

fn method(zone: &str, raw: &RawZone, base: &Path, problems: &mut Problems) -> Option<DnsMethod> {
    let place = |key| ["acme", "dns", zone, key];
    let below = |path: &str| path_below(base, path);
    let secret = |text: &str| SecretSource::parse(text, base);
    belongs(zone, raw, problems);
    match (&raw.exec, &raw.webhook, &raw.rfc2136) {
        (Some(program), None, None) => {
            let program = problems.parsed(&place("exec"), Some(program), below)?;
            Some(DnsMethod::Exec(program))
        }
        (None, Some(url), None) => {
            let password = problems.parsed(&place("password"), raw.password.as_ref(), secret);
            let root = problems.parsed(&place("ca"), raw.ca.as_ref(), below);
            Some(DnsMethod::Webhook {
                url: url.clone(),
                root,
                login: raw.user.clone().zip(password),
            })
        }
        (None, None, Some(server)) => {
            let server = problems.parsed(&place("rfc2136"), Some(server), name_server);
            if raw.tsig.is_none() {
                let text = "is missing: updates are signed; write tsig = \"file:PATH\"";
                problems.add_missing(&place("tsig"), text);
            }
            let tsig = problems.parsed(&place("tsig"), raw.tsig.as_ref(), secret);
            let (server, tsig) = server.zip(tsig)?;
            Some(DnsMethod::Rfc2136 { server, tsig })
        }
        _ => {
            let is_told = |key| problems.is_told(&place(key));
            if !["exec", "webhook", "rfc2136"].into_iter().any(is_told) {
                let text = "write exactly one of exec, webhook, rfc2136 and serve";
                problems.add(Problem::at(&["acme", "dns", zone], text));
            }
            None
        }
    }
}

/// Refuses keys without the key that they belong to.
pub(super) fn belongs(zone: &str, raw: &RawZone, problems: &mut Problems) {
    let (user, password) = (raw.user.is_some(), raw.password.is_some());
    let (webhook, rfc2136) = (raw.webhook.is_some(), raw.rfc2136.is_some());
    let is_served = raw.serve.is_some();
    let has_servers = !raw.name_servers.is_empty();
    for (key, is_given, other, has_other) in [
        ("name_servers", has_servers, "serve", is_served),
        ("tsig", raw.tsig.is_some(), "rfc2136", rfc2136),
        ("ca", raw.ca.is_some(), "webhook", webhook),
        ("user", user, "webhook", webhook),
        ("password", password, "webhook", webhook),
        ("user", user && webhook, "password", password),
        ("password", password && webhook, "user", user),
    ] {
        if is_given && !has_other {
            let text = format!("only together with {other}; leave the key out");
            let problem = Problem::at(&["acme", "dns", zone, key], text);
            problems.add_lack(&["acme", "dns", zone, other], problem);
        }
    }
}
