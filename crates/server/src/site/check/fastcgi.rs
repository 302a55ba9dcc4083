//! Checks `fastcgi`.

use std::sync::Arc;

use super::options::number;
use super::servers::Kind;
use super::upstream::{MAX_CONNECTIONS, MAX_WAITING, balance, of_servers, of_url, timeouts};
use crate::site::document::{RawFastCgi, TextOr};
use crate::site::error::{Below, Checked, Wrong, at_most, checked, each};
use crate::site::script::Scripts;
use crate::site::upstream::{Scheme, UpstreamOptions};

/// Checks the servers, and what they run.
pub(super) fn scripts(raw: &TextOr<RawFastCgi>, is_bound: bool) -> Checked<Scripts> {
    let (upstream, own) = match raw {
        TextOr::Text(word) if word == NONE => (Scripts::never_run(), None),
        TextOr::Text(url) => (of_url(url, Kind::FASTCGI, is_bound)?, None),
        TextOr::Table(keys) => {
            let servers = (&*keys.servers, Kind::FASTCGI);
            let upstream = of_servers(servers, is_bound, |_| options(keys))?;
            (
                upstream,
                checked("scripts", keys.scripts.as_deref(), suffixes)?,
            )
        }
    };
    Ok(Scripts {
        upstream: Arc::new(upstream),
        suffixes: own.unwrap_or_else(|| [PHP.into()].into()),
    })
}

fn options(raw: &RawFastCgi) -> Checked<UpstreamOptions> {
    let defaults = UpstreamOptions::of_scheme(Scheme::FastCgi);
    if raw.timeouts.upgraded.is_some() {
        let text = "no FastCGI server leaves HTTP; `idle` bounds streams of events, too";
        return Err(Wrong::new(text)).below("upgraded").below("timeouts");
    }
    let mut timeouts = timeouts(&raw.timeouts).below("timeouts")?;
    if raw.timeouts.idle.is_some() {
        timeouts.upgraded = timeouts.idle;
    }
    let count = |key, count, range| checked(key, count, |count| number(count, range));
    let connections =
        count("connections", raw.connections, 1..=MAX_CONNECTIONS)?.unwrap_or(defaults.connections);
    Ok(UpstreamOptions {
        balance: checked("balance", raw.balance.as_ref(), balance)?
            .unwrap_or_else(|| defaults.balance.clone()),
        timeouts,
        connections,
        waiting: count("waiting", raw.waiting, 0..=MAX_WAITING)?.unwrap_or(defaults.waiting),
        keep: count("keep", raw.keep, 0..=MAX_KEPT.min(connections))?.unwrap_or(defaults.keep),
        ..defaults.clone()
    })
}

fn suffixes(texts: &[String]) -> Checked<Box<[Box<str>]>> {
    if texts.is_empty() {
        return Err(Wrong::new("write ends of names, such as [\".php\"]"));
    }
    at_most(MAX_SUFFIXES, texts.len(), "suffixes")?;
    each(texts, |text| {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let name = text.strip_prefix('.').unwrap_or_default();
        match !name.is_empty() && text.len() <= MAX_SUFFIX && name.bytes().all(is_plain) {
            true => Ok(text.to_ascii_lowercase().into()),
            false => Err(Wrong::new(format!(
                "{text:?} is no end of a name; write a dot and letters, such as \".php\""
            ))),
        }
    })
}

/// Word for scripts that no server runs.
const NONE: &str = "none";
/// End of the names of scripts, unless the site says otherwise.
const PHP: &str = ".php";
/// Suffixes of one site, which each segment of a path is compared with.
const MAX_SUFFIXES: usize = 8;
const MAX_SUFFIX: usize = 16;
/// Connections that a server's children may be bound to without a request.
const MAX_KEPT: u32 = 1024;
