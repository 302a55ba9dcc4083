//! Checks keys of the top level that hold for the whole host: `as`, `http` and `redirects`.

use std::path::Path;
use std::sync::Arc;

use sekisho_certs::HostName;

use super::TWICE;
use super::paths::plain_path;
use crate::site::document::{Pairs, RawSite};
use crate::site::error::{Below, Checked, Wrong, at_most};
use crate::site::redirect::Redirect;
use crate::site::rule::{Action, Rule, RuleOptions};
use crate::site::rules::PlainHttp;

/// Checks `as` of a site whose other keys, but `http`, are `rest`.
pub(super) fn alias(name: &str, rest: &RawSite, base: Option<&Path>) -> Checked<HostName> {
    if base.is_some() {
        return Err(Wrong::new(
            "hosts without a site of their own can't all be one host; write `as` in host records",
        ));
    }
    if rest.names().next().is_some() {
        let text = "a site that answers as another has no other key than `http`";
        return Err(Wrong::new(text));
    }
    HostName::parse(name).map_err(|error| Wrong::new(format!("{name:?} is no host name: {error}")))
}

/// Checks `http`.
pub(super) fn plain_http(text: &str) -> Checked<PlainHttp> {
    match text {
        "redirect" => Ok(PlainHttp::Redirect),
        "serve" => Ok(PlainHttp::Serve),
        "until-certificate" => Ok(PlainHttp::UntilCertificate),
        _ => Err(Wrong::new(format!(
            "{text:?} is none of \"redirect\", \"serve\" and \"until-certificate\""
        ))),
    }
}

/// Checks `redirects`, and orders them by path. Each is a rule with the options of the top
/// level.
pub(super) fn moved(raw: &Pairs, shared: Option<&Arc<RuleOptions>>) -> Checked<Box<[Rule]>> {
    at_most(MAX_REDIRECTS, raw.0.len(), "redirects")?;
    let rule = |(path, to): &(String, String)| {
        let checked = moved_rule(path, to, shared);
        checked.or_else(|wrong| Err(wrong).below(&path.escape_debug().to_string()))
    };
    let mut rules = raw.0.iter().map(rule).collect::<Checked<Vec<Rule>>>()?;
    // Neighbours alone are compared: this runs on a worker, whenever a host is read.
    rules.sort_unstable_by(|one, other| one.prefix.cmp(&other.prefix));
    match rules
        .windows(2)
        .find(|pair| pair[0].prefix == pair[1].prefix)
    {
        Some(pair) => Err(Wrong::new(TWICE)).below(&pair[0].prefix),
        None => Ok(rules.into()),
    }
}

fn moved_rule(path: &str, to: &str, shared: Option<&Arc<RuleOptions>>) -> Checked<Rule> {
    if to == path {
        return Err(Wrong::new("leads to itself"));
    }
    Ok(Rule {
        prefix: plain_path(path)?,
        is_exact: true,
        methods: None,
        action: Action::Redirect(Redirect::to(to)?),
        options: shared.cloned(),
    })
}

/// Redirects of one site.
const MAX_REDIRECTS: usize = 1000;
