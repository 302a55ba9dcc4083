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

type Result<T> = std::result::Result<T, Problem>;

/// Checks the section, its tables included.
pub(crate) fn check(raw: &RawAcme, store: &Url, base: &Path) -> Result<Acme> {
    if !store.is_catalog() {
        let text = "needs a store that this server writes: sqlite: or postgres://; leave the \
                    section out";
        return Err(Problem::at(&["acme"], text));
    }
    let (cas, external) = ca::check(raw, base)?.into_iter().unzip();
    if !raw.agree {
        let text = "required: you agree to the terms of these CAs with agree = true";
        return Err(at("agree", text));
    }
    let orders = key("acme", "orders").count(raw.orders)?;
    let settings = Settings {
        cas,
        contact: contact(&raw.contact)?,
        agree: raw.agree,
        admission: admission(raw, base)?,
        orders,
        key: word("key", raw.key.as_deref(), KeyKind::from_str)?.unwrap_or_default(),
        reuse_key: raw.reuse_key,
        solvers: solvers(raw.solvers.as_deref())?,
        dns: Vec::new(),
    };
    let zones = dns::check(&raw.dns, base)?;
    Ok(Acme {
        settings,
        external,
        zones,
    })
}

/// Reads the bounds of waits for certificates.
pub(crate) fn waits(raw: Option<&RawAcme>) -> Result<CertificateWaits> {
    let timeout = raw.and_then(|raw| raw.handshake_timeout.as_ref());
    Ok(CertificateWaits {
        places: key("acme", "waiting").count(raw.and_then(|raw| raw.waiting))?,
        time: key("acme", "handshake_timeout").time(timeout)?,
    })
}

fn admission(raw: &RawAcme, base: &Path) -> Result<admission::Settings> {
    let first_access = word("first_access", raw.first_access.as_deref(), first_access)?;
    let first_access = first_access.unwrap_or_default();
    match &raw.ask {
        None if first_access == FirstAccess::Ask => {
            return Err(at("first_access", "\"ask\" needs ask = \"URL\""));
        }
        None if raw.ask_ca.is_some() => {
            return Err(at("ask_ca", "only together with ask; leave the key out"));
        }
        Some(url) if !["http://", "https://"].iter().any(|s| url.starts_with(s)) => {
            return Err(at("ask", format!("{url:?} is no http:// or https:// URL")));
        }
        _ => {}
    }
    let root = raw.ask_ca.as_deref().map(|path| path_below(base, path));
    let pattern =
        |text: &str| HostPattern::parse(text).map_err(|error| format!("{text:?}: {error}"));
    let address = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} is no IP address; write it without a port"))
    };
    Ok(admission::Settings {
        first_access,
        ask: raw.ask.clone(),
        ask_ca: root.transpose().map_err(|text| at("ask_ca", text))?,
        addresses: list("addresses", &raw.addresses, address)?,
        caa: raw.caa.unwrap_or(true),
        allow: list("allow", &raw.allow, pattern)?,
        deny: list("deny", &raw.deny, pattern)?,
        resolvers: list("resolvers", &raw.resolvers, name_server)?,
    })
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
fn contact(texts: &[String]) -> Result<Vec<String>> {
    list("contact", texts, |text| {
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
    })
}

fn solvers(texts: Option<&[String]>) -> Result<Vec<ChallengeType>> {
    let Some(texts) = texts else {
        return Ok(SOLVERS.to_vec());
    };
    let solvers = list("solvers", texts, |text| {
        let found = SOLVERS.into_iter().find(|kind| kind.as_str() == text);
        let known = || SOLVERS.map(ChallengeType::as_str).join(", ");
        found.ok_or_else(|| format!("{text:?} is no kind of challenge; write {}", known()))
    })?;
    for (index, solver) in solvers.iter().enumerate() {
        if solvers[..index].contains(solver) {
            return Err(at("solvers", format!("{:?} stands twice", solver.as_str())));
        }
    }
    if solvers.is_empty() {
        return Err(at("solvers", "must not be empty; leave the key out"));
    }
    Ok(solvers)
}

fn list<T>(
    key: &str,
    texts: &[String],
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    let one = |(index, text): (usize, &String)| {
        parse(text).map_err(|text| Problem::at(&["acme", key, &index.to_string()], text))
    };
    texts.iter().enumerate().map(one).collect()
}

fn word<T>(
    key: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<Option<T>> {
    text.map(parse).transpose().map_err(|text| at(key, text))
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
