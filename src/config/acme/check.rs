//! Checks `[acme]`.

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

type Result<T> = std::result::Result<T, Problem>;

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
        problems.add_lack(&["acme", "agree"], at("agree", text));
    }
    let orders = problems.or_default(key("acme", "orders").count(raw.orders));
    let settings = Settings {
        cas,
        contact: list("contact", &raw.contact, contact, problems),
        agree: raw.agree,
        admission: admission(raw, base, problems),
        orders,
        key: problems.or_default(word("key", raw.key.as_deref(), KeyKind::from_str)),
        reuse_key: raw.reuse_key,
        solvers: solvers(raw.solvers.as_deref(), problems),
        dns: Vec::new(),
    };
    let zones = dns::check(&raw.dns, base, problems);
    Acme {
        settings,
        external,
        zones,
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
    let first_access = word("first_access", raw.first_access.as_deref(), first_access);
    let first_access = problems.or_default(first_access);
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
    let root = raw.ask_ca.as_deref().map(|path| path_below(base, path));
    let root = root.transpose().map_err(|text| at("ask_ca", text));
    let pattern =
        |text: &str| HostPattern::parse(text).map_err(|error| format!("{text:?}: {error}"));
    let address = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} is no IP address; write it without a port"))
    };
    admission::Settings {
        first_access,
        ask: raw.ask.clone(),
        ask_ca: problems.or_default(root),
        addresses: list("addresses", &raw.addresses, address, problems),
        caa: raw.caa.unwrap_or(true),
        allow: list("allow", &raw.allow, pattern, problems),
        deny: list("deny", &raw.deny, pattern, problems),
        resolvers: list("resolvers", &raw.resolvers, name_server, problems),
    }
}

fn first_access(text: &str) -> std::result::Result<FirstAccess, String> {
    match text {
        "hosts" => Ok(FirstAccess::Hosts),
        "ask" => Ok(FirstAccess::Ask),
        "off" => Ok(FirstAccess::Off),
        _ => Err(format!("{text:?}; write \"hosts\", \"ask\" or \"off\"")),
    }
}

/// CAs take addresses of mail without further fields (RFC 8555, section 7.3).
fn contact(text: &str) -> std::result::Result<String, String> {
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
    let solvers = list("solvers", texts, kind, problems);
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

fn list<T>(
    key: &str,
    texts: &[String],
    parse: impl Fn(&str) -> std::result::Result<T, String>,
    problems: &mut Problems,
) -> Vec<T> {
    let one = |(index, text): (usize, &String)| {
        let place = ["acme", key, &index.to_string()];
        problems.keep(parse(text).map_err(|text| Problem::at(&place, text)))
    };
    texts.iter().enumerate().filter_map(one).collect()
}

fn word<T: Default>(
    key: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<T> {
    text.map_or_else(|| Ok(T::default()), parse)
        .map_err(|text| at(key, text))
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
