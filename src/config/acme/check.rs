//! Checks `[acme]`.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use sekisho_certs::HostPattern;
use sekisho_issuance::acme::{ChallengeType, KeyKind};
use sekisho_issuance::admission::{self, FirstAccess};
use sekisho_issuance::settings::Settings;
use sekisho_server::CertificateWaits;
use sekisho_stores::Url;
use sekisho_stores::url::path_below;

use super::raw::RawAcme;
use super::{Acme, ca, dns};
use crate::config::keys::key;
use crate::config::locate::Problem;
use crate::config::name_server::name_server;
use crate::config::problems::Problems;

/// Checks the section, its tables included. The store is not known if it is wrong.
pub(crate) fn check(
    raw: &RawAcme,
    store: Option<&Url>,
    base: &Path,
    problems: &mut Problems,
) -> Acme {
    if store.is_some_and(|store| !store.is_catalog()) {
        let text = "needs a store that this server writes: sqlite: or postgres://; leave the \
                    section out";
        problems.add(Problem::at(&["acme"], text));
    }
    let (cas, external) = ca::check(raw, base, problems).into_iter().unzip();
    if !raw.agree {
        let text = "required: you agree to the terms of these CAs with agree = true";
        problems.add_missing(&["acme", "agree"], text);
    }
    let kind = problems.parsed(&["acme", "key"], raw.key.as_ref(), KeyKind::from_str);
    let orders = problems.or_default(key("acme", "orders").count(raw.orders));
    let settings = Settings {
        cas,
        contact: problems.list("acme", "contact", &raw.contact, contact),
        agree: raw.agree,
        admission: admission(raw, base, problems),
        orders,
        key: kind.unwrap_or_default(),
        reuse_key: raw.reuse_key,
        solvers: solvers(raw.solvers.as_deref(), problems),
        dns: Vec::new(),
        served: None,
    };
    let (zones, serve) = dns::check(&raw.dns, base, problems);
    Acme {
        settings,
        external,
        zones,
        serve,
    }
}

/// Reads the bounds of waits for certificates.
pub(crate) fn waits(raw: Option<&RawAcme>, problems: &mut Problems) -> CertificateWaits {
    let timeout = raw.and_then(|raw| raw.handshake_timeout.as_ref());
    let waiting = raw.and_then(|raw| raw.waiting);
    CertificateWaits {
        waiting: problems.or_default(key("acme", "waiting").count(waiting)),
        time: problems.or_default(key("acme", "handshake_timeout").time(timeout)),
    }
}

fn admission(raw: &RawAcme, base: &Path, problems: &mut Problems) -> admission::Settings {
    let place = ["acme", "first_access"];
    let first_access = problems.parsed(&place, raw.first_access.as_ref(), first_access);
    let first_access = first_access.unwrap_or_default();
    let lack = match &raw.ask {
        None if first_access == FirstAccess::Ask => {
            Some(at("first_access", "\"ask\" needs ask = \"URL\""))
        }
        None if raw.ask_ca.is_some() => {
            Some(at("ask_ca", "only together with ask; leave the key out"))
        }
        Some(url) if !["http://", "https://"].iter().any(|s| url.starts_with(s)) => {
            Some(at("ask", format!("{url:?} is no http:// or https:// URL")))
        }
        _ => None,
    };
    if let Some(problem) = lack {
        problems.add_lack(&["acme", "ask"], problem);
    }
    let root = problems.parsed(&["acme", "ask_ca"], raw.ask_ca.as_ref(), |path| {
        path_below(base, path)
    });
    let pattern =
        |text: &str| HostPattern::parse(text).map_err(|error| format!("{text:?}: {error}"));
    let address = |text: &str| {
        text.parse::<IpAddr>()
            .map_err(|_| format!("{text:?} is no IP address; write it without a port"))
    };
    admission::Settings {
        first_access,
        ask: raw.ask.clone(),
        ask_ca: root,
        addresses: problems.list("acme", "addresses", &raw.addresses, address),
        caa: raw.caa.unwrap_or(true),
        allow: problems.list("acme", "allow", &raw.allow, pattern),
        deny: problems.list("acme", "deny", &raw.deny, pattern),
        resolvers: problems.list("acme", "resolvers", &raw.resolvers, name_server),
    }
}

fn first_access(text: &str) -> Result<FirstAccess, String> {
    match text {
        "hosts" => Ok(FirstAccess::Hosts),
        "ask" => Ok(FirstAccess::Ask),
        "off" => Ok(FirstAccess::Off),
        _ => Err(format!("{text:?}; write \"hosts\", \"ask\" or \"off\"")),
    }
}

/// CAs take addresses of mail without further fields (RFC 8555, section 7.3).
fn contact(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or_default();
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic())
        && !address.contains([',', '?', '#', '<', '>']);
    match address.split_once('@') {
        Some((local, host)) if is_plain && !local.is_empty() && !host.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err(format!(
            "{text:?} is no mailto: URI; write \"mailto:ops@example.com\""
        )),
    }
}

fn solvers(texts: Option<&[String]>, problems: &mut Problems) -> Vec<ChallengeType> {
    let Some(texts) = texts else {
        return SOLVERS.to_vec();
    };
    let kind = |text: &str| {
        let found = SOLVERS.into_iter().find(|kind| kind.as_str() == text);
        let known = || SOLVERS.map(ChallengeType::as_str).join(", ");
        found.ok_or_else(|| format!("{text:?} is no kind of challenge; write {}", known()))
    };
    let solvers: Vec<ChallengeType> = problems.list("acme", "solvers", texts, kind);
    for (index, solver) in solvers.iter().enumerate() {
        if solvers[..index].contains(solver) {
            problems.add(at("solvers", format!("{:?} stands twice", solver.as_str())));
        }
    }
    if texts.is_empty() {
        problems.add(at("solvers", "must not be empty; leave the key out"));
    }
    solvers
}

fn at(key: &str, text: impl Into<String>) -> Problem {
    Problem::at(&["acme", key], text)
}

/// TLS-ALPN-01 first: it needs no second port.
const SOLVERS: [ChallengeType; 3] = [
    ChallengeType::TlsAlpn01,
    ChallengeType::Http01,
    ChallengeType::Dns01,
];
