//! Checks the keys of a zone that the servers answer for.

use std::net::{IpAddr, SocketAddr};

use sekisho_certs::HostName;

use super::dns::{belongs, parsed};
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
    belongs(name, raw, problems);
    for (key, is_given) in [
        ("exec", raw.exec.is_some()),
        ("webhook", raw.webhook.is_some()),
        ("rfc2136", raw.rfc2136.is_some()),
        ("propagation_timeout", raw.propagation_timeout.is_some()),
        ("check", raw.check.is_some()),
        ("servers", !raw.servers.is_empty()),
    ] {
        if is_given {
            let text = "not together with serve; leave the key out";
            problems.add(Problem::at(&place(key), text));
        }
    }
    let mut list = |key, texts: &[String]| {
        let read: Result<Vec<_>, _> = texts.iter().map(|text| name_server(text)).collect();
        problems.or_default(read.map_err(|why| Problem::at(&place(key), why)))
    };
    let addresses = list("serve", raw.serve.as_deref().unwrap_or_default());
    let named = list("name_servers", &raw.name_servers);
    if addresses.is_empty() {
        let text = "must not be empty; write serve = [\"0.0.0.0:53\"]";
        problems.add_missing(&place("serve"), text);
    }
    let named = if named.is_empty() { &addresses } else { &named };
    let named = named.iter().map(SocketAddr::ip);
    let name_servers = named.filter(|ip| !ip.is_unspecified()).collect();
    let zone = problems.parsed(&["acme", "dns", name], Some(&name.to_owned()), parsed)?;
    Some(Serve {
        zone,
        addresses,
        name_servers,
    })
}
