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
    /// Addresses of all its name servers. If there are none, the one that was asked.
    pub(crate) name_servers: Vec<IpAddr>,
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
    let ip = |text: &str| {
        let ip = text.parse::<IpAddr>();
        ip.map_err(|_| format!("{text:?} is no IP address; write \"192.0.2.53\""))
    };
    let mut name_servers = list(place("name_servers"), &raw.name_servers, ip, problems);
    if raw.name_servers.is_empty() {
        let own = addresses.iter().map(SocketAddr::ip);
        name_servers.extend(own.filter(|ip| !ip.is_unspecified()));
    }
    let parse = |name: &str| match name.len() {
        ..=MAX_ZONE => parsed(name),
        _ => Err(format!("a zone that is served has at most {MAX_ZONE} characters")),
    };
    let zone = problems.parsed(&["acme", "dns", name], Some(&name.to_owned()), parse)?;
    Some(Serve {
        zone,
        addresses,
        name_servers,
    })
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
