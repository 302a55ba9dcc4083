//! Checks options, which a path takes from the top level unless it has its own.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use http::HeaderValue;

use super::action::root_of;
use super::auth::auth;
use super::coding::{compress, index, precompressed};
use super::fields::{field_value, pairs, request_fields, response_fields};
use crate::limits::network::{Network, Networks};
use crate::site::document::{Pairs, RawHsts, RawRate, RawSite};
use crate::site::error::{Below, Checked, Wrong, at_most, checked, each};
use crate::site::rule::{CacheRule, MediaRange, RuleOptions};
use crate::site::value::Unit;

/// Checks the options. The two scopes tell rates, and requests in flight, of this place from
/// those of others.
pub(super) fn rule_options<I>(
    raw: &RawSite<I>,
    (rate_scope, in_flight_scope): (usize, usize),
    base: Option<&Path>,
) -> Checked<RuleOptions> {
    let rates = checked("rate", raw.rate.as_deref(), rates)?.unwrap_or_default();
    let [rate_client, rate_burst, rate_host] = rates;
    let request = checked("request", raw.request.as_deref(), request_fields)?;
    let response = checked("response", raw.response.as_deref(), response_fields)?;
    let folder = |text: &str| root_of(text, base);
    let limit = |text: &str| measured(Unit::Bytes, text, ("0B", "1TiB"));
    let in_flight = |most| number(most, 1..=MAX_IN_FLIGHT);
    let codings = checked("precompressed", raw.precompressed.as_deref(), precompressed)?;
    let in_flight = checked("in_flight", raw.in_flight, in_flight)?;
    Ok(RuleOptions {
        request_fields: request.unwrap_or_default(),
        response_fields: response.unwrap_or_default(),
        hsts: checked("hsts", raw.hsts.as_deref(), hsts)?,
        cache: checked("cache", raw.cache.as_ref(), cache)?.unwrap_or_default(),
        index: checked("index", raw.index.as_deref(), index)?.unwrap_or_default(),
        precompressed: codings.unwrap_or_default(),
        compress: checked("compress", raw.compress.as_ref(), compress)?.flatten(),
        errors: checked("errors", raw.errors.as_deref(), folder)?,
        upstream_errors: raw.upstream_errors.unwrap_or_default(),
        body_limit: checked("body_limit", raw.body_limit.as_deref(), limit)?,
        rate_client,
        rate_burst,
        rate_host,
        rate_scope: u8::try_from(rate_scope).unwrap_or(u8::MAX),
        in_flight: in_flight.and_then(NonZeroU32::new),
        in_flight_scope: u8::try_from(in_flight_scope).unwrap_or(u8::MAX),
        allow: checked("allow", raw.allow.as_deref(), networks)?,
        deny: checked("deny", raw.deny.as_deref(), networks)?.unwrap_or_default(),
        auth: checked("auth", raw.auth.as_ref(), auth)?.flatten(),
        client_certificate: raw.client_certificate.unwrap_or_default(),
        // `RawSite::rewrite` sets the keys about the path: no path takes them from the top level.
        ..RuleOptions::default()
    })
}

/// Checks a whole number.
pub(super) fn number<T>(number: i64, range: RangeInclusive<T>) -> Checked<T>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    T::try_from(number)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            Wrong::new(format!("{number} is out of range; write {least} to {most}"))
        })
}

/// Checks a duration that a key has.
pub(super) fn duration(
    key: &str,
    text: &Option<String>,
    default: Duration,
    range: (&str, &str),
) -> Checked<Duration> {
    let millis = |text: &str| measured(Unit::Time, text, range);
    let millis = checked(key, text.as_deref(), millis)?;
    Ok(millis.map_or(default, Duration::from_millis))
}

/// Checks a whole number with a unit.
fn measured(unit: Unit, text: &str, (least, most): (&str, &str)) -> Checked<u64> {
    let value = |text| unit.parse(text).map_err(Wrong::new);
    let (found, range) = (value(text)?, value(least)?..=value(most)?);
    match range.contains(&found) {
        true => Ok(found),
        false => Err(Wrong::new(format!(
            "{text} is out of range; write {least} to {most}"
        ))),
    }
}

/// Makes the value of `Strict-Transport-Security` (RFC 6797, section 6.1).
fn hsts(raw: &RawHsts) -> Checked<HeaderValue> {
    let max_age = raw
        .max_age
        .ok_or_else(|| Wrong::new("is missing; write seconds, such as 31536000"));
    let max_age = max_age
        .and_then(|seconds| number(seconds, 0..=MAX_AGE))
        .below("max_age")?;
    if raw.preload && (max_age < PRELOAD_AGE || !raw.subdomains) {
        return Err(Wrong::new(format!(
            "browsers' list wants `max_age` of at least {PRELOAD_AGE} and `subdomains` (hstspreload.org)"
        )))
        .below("preload");
    }
    let subdomains = if raw.subdomains {
        "; includeSubDomains"
    } else {
        ""
    };
    let preload = if raw.preload { "; preload" } else { "" };
    let text = format!("max-age={max_age}{subdomains}{preload}");
    HeaderValue::from_str(&text).map_err(|error| Wrong::new(error.to_string()))
}

/// Checks `cache`, and orders it: the narrowest media range counts.
fn cache(raw: &Pairs) -> Checked<Box<[CacheRule]>> {
    at_most(MAX_CACHE, raw.0.len(), "media ranges")?;
    let rules = pairs(raw, "media range", media_range, field_value)?.into_iter();
    let mut rules: Vec<_> = rules
        .map(|(media, value)| CacheRule { media, value })
        .collect();
    rules.sort_by_key(|rule| match rule.media {
        MediaRange::Exact(_) => 0,
        MediaRange::Type(_) => 1,
        MediaRange::Any => 2,
    });
    Ok(rules.into())
}

/// Checks a media range.
pub(super) fn media_range(text: &str) -> Checked<MediaRange> {
    // Names of types and of fields have nearly the same characters (RFC 6838,
    // section 4.2).
    let is_name =
        |name: &str| http::HeaderName::from_bytes(name.as_bytes()).is_ok() && !name.contains('*');
    match text.to_ascii_lowercase().split_once('/') {
        Some(("*", "*")) => Ok(MediaRange::Any),
        Some((kind, "*")) if is_name(kind) => Ok(MediaRange::Type(format!("{kind}/").into())),
        Some((kind, sub)) if is_name(kind) && is_name(sub) => {
            Ok(MediaRange::Exact(format!("{kind}/{sub}").into()))
        }
        _ => Err(Wrong::new(
            "is no media range; write \"text/css\", \"image/*\" or \"*/*\"",
        )),
    }
}

/// Checks `rate`. Returns requests per second of a client, those that may come at once, and
/// requests per second of the host.
fn rates(raw: &RawRate) -> Checked<[Option<NonZeroU32>; 3]> {
    let rate = |key, rate| -> Checked<Option<NonZeroU32>> {
        let rate = checked(key, rate, |rate| number(rate, 1..=MAX_RATE))?;
        Ok(rate.and_then(NonZeroU32::new))
    };
    if raw.client.is_none() && raw.host.is_none() {
        return Err(Wrong::new("write `client` or `host`, requests per second"));
    }
    if raw.burst.is_some() && raw.client.is_none() {
        return Err(Wrong::new("is of the rate `client`; write that, too")).below("burst");
    }
    Ok([
        rate("client", raw.client)?,
        rate("burst", raw.burst)?,
        rate("host", raw.host)?,
    ])
}

fn networks(texts: &[String]) -> Checked<Networks> {
    at_most(MAX_NETWORKS, texts.len(), "networks")?;
    let networks = each(texts, |text| {
        Network::parse(text).map_err(|error| Wrong::new(error.to_string()))
    });
    Ok(networks?.into_iter().collect())
}

/// Two years, the longest that is in use.
const MAX_AGE: u32 = 63_072_000;
/// A year.
const PRELOAD_AGE: u32 = 31_536_000;
const MAX_RATE: u32 = 1_000_000;
/// Requests of one client network in flight.
const MAX_IN_FLIGHT: u32 = 65_536;
/// Media ranges of `cache`, each of which an answer's type may be compared with.
const MAX_CACHE: usize = 64;
/// Networks of one list, each of which every request is compared with.
const MAX_NETWORKS: usize = 256;
