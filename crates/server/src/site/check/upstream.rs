//! Checks `upstream`.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderName, HeaderValue};
use rustls::pki_types::ServerName;
use sekisho_certs::HostName;
use sekisho_certs::credential::{CredentialError, authorities};

use super::options::{duration, number};
use super::servers::{self, Kind};
use crate::site::document::{
    RawCheck, RawCookie, RawServer, RawTimeouts, RawTls, RawUpstream, TextOr, TextOrNumber,
};
use crate::site::error::{Below, Checked, Wrong, checked, each, one_to};
use crate::site::upstream::{
    ActiveCheck, Balance, MAX_SERVERS, MAX_WEIGHT, Protocol, ProxyVersion, Scheme, Upstream,
    UpstreamOptions, UpstreamServer, UpstreamTimeouts, UpstreamTls,
};

/// Checks an upstream that is a single URL.
pub(super) fn of_url(url: &str, kind: Kind, is_bound: bool) -> Checked<Upstream> {
    let (scheme, address) = servers::parse(url, kind)?;
    Ok(Upstream {
        servers: [UpstreamServer { address, weight: 1 }].into(),
        scheme,
        is_bound,
        options: None,
    })
}

/// Checks all keys of an upstream.
pub(super) fn upstream(raw: &RawUpstream, is_bound: bool) -> Checked<Upstream> {
    of_servers((&raw.servers, Kind::HTTP), is_bound, |scheme| {
        upstream_options(raw, scheme)
    })
}

/// Makes an upstream of servers of one kind, with the options of their scheme.
pub(super) fn of_servers(
    (servers, kind): (&[TextOr<RawServer>], Kind),
    is_bound: bool,
    options: impl FnOnce(Scheme) -> Checked<UpstreamOptions>,
) -> Checked<Upstream> {
    let (scheme, servers) = servers_of(servers, kind).below("servers")?;
    let options = options(scheme)?;
    let is_default = options == *UpstreamOptions::of_scheme(scheme);
    Ok(Upstream {
        servers,
        scheme,
        is_bound,
        options: (!is_default).then(|| Box::new(options)),
    })
}

/// Checks a list of servers of one kind.
fn servers_of(raw: &[TextOr<RawServer>], kind: Kind) -> Checked<(Scheme, Box<[UpstreamServer]>)> {
    let what = format!("servers, such as {}", kind.list);
    one_to(MAX_SERVERS, raw, &what)?;
    let servers = each(raw, |raw| server(raw, kind))?;
    let scheme = servers[0].0;
    for (index, (other, server)) in servers.iter().enumerate() {
        let before = &servers[..index];
        let problem = if *other != scheme {
            "all servers of an upstream have the same scheme"
        } else if before
            .iter()
            .any(|(_, other)| other.address == server.address)
        {
            "the server stands twice; give it a `weight`"
        } else {
            continue;
        };
        return Err(Wrong::new(problem)).below(&index.to_string());
    }
    let servers = servers.into_iter().map(|(_, server)| server);
    Ok((scheme, servers.collect()))
}

fn server(raw: &TextOr<RawServer>, kind: Kind) -> Checked<(Scheme, UpstreamServer)> {
    let (url, weight) = match raw {
        TextOr::Text(url) => (servers::parse(url, kind)?, 1),
        TextOr::Table(RawServer { url, weight }) => {
            let url = url.as_deref().ok_or_else(|| Wrong::new("is missing"));
            let url = url.and_then(|url| servers::parse(url, kind)).below("url")?;
            let weight = weight.map_or(Ok(1), |weight| number(weight, 1..=MAX_WEIGHT));
            (url, weight.below("weight")?)
        }
    };
    let (scheme, address) = url;
    Ok((scheme, UpstreamServer { address, weight }))
}

fn upstream_options(raw: &RawUpstream, scheme: Scheme) -> Checked<UpstreamOptions> {
    let defaults = UpstreamOptions::of_scheme(scheme);
    if let Some(key) = raw.moved_key() {
        return Err(Wrong::new(moved(key))).below(key);
    }
    let count = |key, count, range| checked(key, count, |count| number(count, range));
    Ok(UpstreamOptions {
        protocol: protocol(raw.protocol.as_deref(), scheme).below("protocol")?,
        tls: tls(raw.tls.as_deref(), scheme).below("tls")?,
        host: checked("host", raw.host.as_deref(), host)?,
        balance: checked("balance", raw.balance.as_ref(), balance)?
            .unwrap_or(Balance::LeastInFlight),
        check: checked("check", raw.check.as_deref(), active_check)?,
        timeouts: timeouts(&raw.timeouts).below("timeouts")?,
        proxy_protocol: checked(
            "proxy_protocol",
            raw.proxy_protocol.as_deref(),
            proxy_version,
        )?,
        forwarded: raw.forwarded,
        underscores: raw.underscores,
        connections: count("connections", raw.connections, 1..=MAX_CONNECTIONS)?
            .unwrap_or(defaults.connections),
        waiting: count("waiting", raw.waiting, 0..=MAX_WAITING)?.unwrap_or(defaults.waiting),
        keep: defaults.keep,
    })
}

/// Says where a key of earlier documents stands now.
fn moved(key: &str) -> String {
    format!(
        "the name holds for all sites, and stands in the configuration, as [sites] {key}; leave \
         it out here"
    )
}

fn protocol(text: Option<&str>, scheme: Scheme) -> Checked<Protocol> {
    let Some(text) = text else {
        return Ok(UpstreamOptions::of_scheme(scheme).protocol);
    };
    match (text, scheme) {
        ("http1", Scheme::Https | Scheme::Unix | Scheme::Http) => Ok(Protocol::Http1),
        ("http2", Scheme::Https | Scheme::Unix | Scheme::H2c) => Ok(Protocol::Http2),
        ("auto", Scheme::Https) => Ok(Protocol::Negotiated),
        ("http2", Scheme::Http) => Err(Wrong::new("http:// is HTTP/1.1; write h2c:// servers")),
        ("http1", Scheme::H2c) => Err(Wrong::new("h2c:// is HTTP/2; write http:// servers")),
        ("auto", _) => Err(Wrong::new(
            "only https:// servers choose; write \"http1\" or \"http2\"",
        )),
        _ => Err(Wrong::new(format!(
            "{text:?} is no protocol; write \"http1\", \"http2\" or \"auto\""
        ))),
    }
}

fn tls(raw: Option<&RawTls>, scheme: Scheme) -> Checked<Option<Arc<UpstreamTls>>> {
    let Some(raw) = raw else {
        return Ok(UpstreamOptions::of_scheme(scheme).tls.clone());
    };
    if scheme != Scheme::Https {
        return Err(Wrong::new("only https:// servers have TLS; leave it out"));
    }
    Ok(Some(Arc::new(UpstreamTls {
        name: checked("name", raw.name.as_deref(), server_name)?,
        ca: checked("ca", raw.ca.as_deref(), ca)?,
        certificate_of: checked("certificate_of", raw.certificate_of.as_deref(), host_name)?,
    })))
}

fn host_name(name: &str) -> Checked<HostName> {
    HostName::parse(name).map_err(|error| Wrong::new(format!("{name:?} is no host name: {error}")))
}

fn server_name(name: &str) -> Checked<Box<str>> {
    match ServerName::try_from(name) {
        Ok(_) => Ok(name.to_ascii_lowercase().into()),
        Err(_) => Err(Wrong::new(format!(
            "{name:?} is neither a name nor an address"
        ))),
    }
}

/// Checks the authorities that the servers' certificates are verified by: those that
/// can't verify any would fail each connection.
fn ca(pem: &str) -> Checked<Box<str>> {
    match authorities(pem.as_bytes()) {
        Ok(_) => Ok(pem.into()),
        Err(CredentialError::NoCertificate) => Err(Wrong::new(
            "write the text of PEM certificates, \"-----BEGIN CERTIFICATE-----…\"",
        )),
        Err(error) => Err(Wrong::new(error.to_string())),
    }
}

fn host(text: &str) -> Checked<HeaderValue> {
    let wrong = || Wrong::new(format!("{text:?} is no host with an optional port"));
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    if text.contains('@') || authority.host().is_empty() {
        return Err(wrong());
    }
    HeaderValue::from_str(text).map_err(|_| wrong())
}

pub(super) fn balance(raw: &TextOr<RawCookie>) -> Checked<Balance> {
    let wrong = "write \"least\", \"client\" or {\"cookie\": \"NAME\"}";
    match raw {
        TextOr::Text(text) => match text.as_str() {
            "least" => Ok(Balance::LeastInFlight),
            "client" => Ok(Balance::ClientAddress),
            _ => Err(Wrong::new(format!("{text:?} is no way to choose; {wrong}"))),
        },
        TextOr::Table(RawCookie { cookie }) => {
            let name = cookie.as_deref().ok_or_else(|| Wrong::new(wrong))?;
            // A cookie's name is a token (RFC 6265, section 4.1.1), as that of a
            // field is.
            match HeaderName::from_bytes(name.as_bytes()) {
                Ok(_) if name.len() <= MAX_COOKIE => Ok(Balance::Cookie(name.into())),
                _ => Err(Wrong::new(format!("{name:?} is no name of a cookie"))).below("cookie"),
            }
        }
    }
}

fn active_check(raw: &RawCheck) -> Checked<ActiveCheck> {
    let missing = || Wrong::new("is missing; write \"/health\"");
    let path = raw.path.as_deref().ok_or_else(missing);
    let status = |status: &TextOrNumber| match status {
        TextOrNumber::Text(text) => statuses(text),
        TextOrNumber::Number(number) => statuses(&number.to_string()),
    };
    Ok(ActiveCheck {
        path: path.and_then(check_path).below("path")?,
        interval: duration("interval", &raw.interval, INTERVAL, ("1s", "1h"))?,
        timeout: duration("timeout", &raw.timeout, TIMEOUT, ("100ms", "1m"))?,
        status: checked("status", raw.status.as_ref(), status)?.unwrap_or(HEALTHY),
    })
}

fn check_path(path: &str) -> Checked<Box<str>> {
    match path.parse::<PathAndQuery>() {
        Ok(_) if path.starts_with('/') && !path.contains('#') => Ok(path.into()),
        _ => Err(Wrong::new(format!(
            "{path:?} is no path; write \"/health\""
        ))),
    }
}

/// Reads `204` or `200-399`.
fn statuses(text: &str) -> Checked<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if (100..=last).contains(&first) && last < 600 => Ok(first..=last),
        _ => Err(Wrong::new(format!(
            "{text:?} is no status; write \"200\" or \"200-399\""
        ))),
    }
}

fn proxy_version(text: &str) -> Checked<ProxyVersion> {
    match text {
        "v1" => Ok(ProxyVersion::V1),
        "v2" => Ok(ProxyVersion::V2),
        _ => Err(Wrong::new(format!(
            "{text:?} is no version; write \"v1\" or \"v2\""
        ))),
    }
}

pub(super) fn timeouts(raw: &RawTimeouts) -> Checked<UpstreamTimeouts> {
    let defaults = UpstreamTimeouts::DEFAULT;
    let (short, long) = (("100ms", "1m"), ("100ms", "1d"));
    Ok(UpstreamTimeouts {
        connect: duration("connect", &raw.connect, defaults.connect, short)?,
        first_byte: duration("first_byte", &raw.first_byte, defaults.first_byte, long)?,
        idle: duration("idle", &raw.idle, defaults.idle, long)?,
        upgraded: duration("upgraded", &raw.upgraded, defaults.upgraded, long)?,
    })
}

pub(super) const MAX_CONNECTIONS: u32 = 65_536;
/// As many requests as 40 connections of HTTP/2 may have in flight.
pub(super) const MAX_WAITING: u32 = 4096;
const MAX_COOKIE: usize = 64;
const INTERVAL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Statuses of a server that does what it should.
const HEALTHY: RangeInclusive<u16> = 200..=399;
