//! Checks the keys of a zone that the servers answer for.

use std::net::{IpAddr, SocketAddr};

use sekisho_certs::HostName;

use super::dns::parsed;
use super::raw::RawZone;
use crate::config::locate::Problem;
use crate::config::name_server::name_server;
use crate::config::problems::Problems;

/// `[acme.dns."ZONE"]` with `serve`.
#[derive(Clone, Debug)]
pub(crate) struct Serve {
    pub(crate) zone: HostName,
    /// Addresses of UDP and TCP.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Name servers, those in the zone with their addresses.
    pub(crate) name_servers: Vec<(String, Vec<IpAddr>)>,
}

pub(super) fn check(name: &str, raw: &RawZone, problems: &mut Problems) -> Option<Serve> {
    let place = |key| ["acme", "dns", name, key];
    let written = [&raw.exec, &raw.webhook, &raw.rfc2136];
    if written.iter().any(|key| key.is_some()) {
        let text = "write exactly one of exec, webhook, rfc2136 and serve";
        problems.add(Problem::at(&["acme", "dns", name], text));
    }
    for (key, is_given) in [
        ("propagation_timeout", raw.propagation_timeout.is_some()),
        ("check", raw.check.is_some()),
        ("servers", !raw.servers.is_empty()),
    ] {
        if is_given {
            let text = "only with exec, webhook or rfc2136; leave the key out";
            problems.add(Problem::at(&place(key), text));
        }
    }
    let texts = raw.serve.as_deref().unwrap_or_default();
    if texts.is_empty() {
        let text = "must not be empty; write serve = [\"0.0.0.0:53\"]";
        problems.add(Problem::at(&place("serve"), text));
    }
    let addresses = list(place("serve"), texts, name_server, problems);
    let server = |text: &str| server(text, name);
    let mut name_servers = list(place("name_servers"), &raw.name_servers, server, problems);
    if raw.name_servers.is_empty() {
        let own = addresses.iter().map(|address| address.ip());
        let own = own.filter(|ip| !ip.is_unspecified());
        name_servers.push((format!("ns.{name}"), own.collect()));
    }
    let zone = problems.parsed(&["acme", "dns", name], Some(&name.to_owned()), |name| {
        match name.len() {
            ..=MAX_ZONE => parsed(name),
            _ => Err(format!("a zone that is served has at most {MAX_ZONE} characters")),
        }
    })?;
    Some(Serve {
        zone,
        addresses,
        name_servers,
    })
}

/// Reads the name of a name server, and the addresses behind `=`.
fn server(text: &str, zone: &str) -> Result<(String, Vec<IpAddr>), String> {
    let (name, addresses) = text.split_once('=').unwrap_or((text, ""));
    let parsed = HostName::parse(name).map_err(|error| format!("{name:?}: {error}"))?;
    let address = |text: &str| {
        let parsed = text.trim().parse::<IpAddr>();
        parsed.map_err(|_| format!("{text:?} is no IP address; write \"ns1.{zone}=192.0.2.53\""))
    };
    let addresses = addresses.split(',').filter(|text| !text.is_empty());
    let addresses: Vec<_> = addresses.map(address).collect::<Result<_, _>>()?;
    let is_inside = parsed.as_str().strip_suffix(zone);
    let is_inside = is_inside.is_some_and(|left| left.is_empty() || left.ends_with('.'));
    match is_inside || addresses.is_empty() {
        true => Ok((parsed.as_str().to_owned(), addresses)),
        false => Err(format!(
            "{parsed} is not in this zone, and has its addresses elsewhere; write \"{parsed}\""
        )),
    }
}

/// Reads the texts of a list. Wrong ones are noted with their index, and left out.
fn list<T>(
    [section, dns, zone, key]: [&str; 4],
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
    problems: &mut Problems,
) -> Vec<T> {
    let one = |(index, text): (usize, &String)| {
        let index = index.to_string();
        problems.parsed(&[section, dns, zone, key, &index], Some(text), &parse)
    };
    texts.iter().enumerate().filter_map(one).collect()
}

/// A name in the zone has a label of 52 characters, one of 16, and 255 bytes at most.
const MAX_ZONE: usize = 180;
