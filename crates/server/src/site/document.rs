//! Keys of a site document as written, in JSON or in `[site]`. `check.rs` makes
//! a site of them.

mod forms;
mod upstream;
mod wording;

use serde::{Deserialize, Deserializer};

use super::MAX_DOCUMENT;
use super::error::{SiteError, Wrong};
pub(crate) use forms::{Pairs, Table, TextOr};
pub(crate) use upstream::{RawCheck, RawCookie, RawServer, RawTimeouts, RawTls, RawUpstream};
pub use wording::reworded;

/// Declares the top level and a path, which share all keys but their first:
/// serde can't flatten and refuse unknown keys at once.
macro_rules! with_rule {
    ($($(#[$doc:meta])* $vis:vis struct $name:ident { $first:ident: $type:ty })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $vis struct $name {
            $first: $type,
            root: Option<String>,
            upstream: Option<TextOr<RawUpstream>>,
            redirect: Option<String>,
            status: Option<i64>,
            text: Option<String>,
            strip: Option<bool>,
            add: Option<String>,
            r#try: Option<Vec<String>>,
            request: Option<Table<RawFields>>,
            response: Option<Table<RawFields>>,
            hsts: Option<Table<RawHsts>>,
            cache: Option<Pairs>,
            errors: Option<String>,
            body_limit: Option<String>,
            rate: Option<Table<RawRate>>,
            allow: Option<Vec<String>>,
            deny: Option<Vec<String>>,
        }

        impl $name {
            /// Takes the shared keys apart from the first.
            pub(crate) fn split(self) -> ($type, RawRule) {
                let action = RawAction {
                    root: self.root,
                    upstream: self.upstream,
                    redirect: self.redirect,
                    status: self.status,
                    text: self.text,
                };
                let rewrite = RawRewrite {
                    strip: self.strip,
                    add: self.add,
                    r#try: self.r#try,
                };
                let options = RawOptions {
                    request: self.request,
                    response: self.response,
                    hsts: self.hsts,
                    cache: self.cache,
                    errors: self.errors,
                    body_limit: self.body_limit,
                    rate: self.rate,
                    allow: self.allow,
                    deny: self.deny,
                };
                (self.$first, RawRule { action, rewrite, options })
            }
        }
    )*};
}

with_rule! {
    /// Keys of a site as written.
    pub struct RawSite { paths: Option<Vec<Table<RawPath>>> }
    /// Keys of an item of `paths`.
    pub(crate) struct RawPath { path: Option<String> }
}

impl RawSite {
    /// Reads the keys from a deserializer. An error names the path of its key.
    ///
    /// # Errors
    /// For unknown keys and values of a wrong type.
    pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, SiteError>
    where
        D::Error: std::fmt::Display,
    {
        let read = serde_path_to_error::deserialize(from).map(|Table(raw)| raw);
        read.map_err(|error| {
            let key = wording::keys(error.path());
            let problem = wording::reworded(&error.inner().to_string());
            Wrong::at(key, problem).into()
        })
    }

    /// Reads the keys of a document in JSON.
    pub(crate) fn read_json(json: &str) -> Result<Self, SiteError> {
        if json.len() > MAX_DOCUMENT {
            return Err(SiteError::TooLong(json.len()));
        }
        // Paths of keys are noted only for a document that has an error.
        if let Ok(Table(raw)) = serde_json::from_str(json) {
            return Ok(raw);
        }
        // Tells a text that is no JSON from one with wrong keys.
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(json) {
            return Err(SiteError::Syntax(error.to_string()));
        }
        let mut from = serde_json::Deserializer::from_str(json);
        let raw = Self::read(&mut from)?;
        from.end()
            .map_err(|error| SiteError::Syntax(error.to_string()))?;
        Ok(raw)
    }

    /// Returns the first key that format 1 lacks, and that the document has.
    pub(crate) fn new_key(&self) -> Option<&'static str> {
        let has_tenant = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            text.contains(super::template::TENANT)
        };
        let known = [
            (self.paths.is_some(), "paths"),
            (self.upstream.is_some(), "upstream"),
            (self.text.is_some(), "text"),
            (self.strip.is_some(), "strip"),
            (self.add.is_some(), "add"),
            (self.r#try.is_some(), "try"),
            (self.request.is_some(), "request"),
            (self.response.is_some(), "response"),
            (self.hsts.is_some(), "hsts"),
            (self.cache.is_some(), "cache"),
            (self.errors.is_some(), "errors"),
            (self.body_limit.is_some(), "body_limit"),
            (self.rate.is_some(), "rate"),
            (self.allow.is_some(), "allow"),
            (self.deny.is_some(), "deny"),
            (has_tenant(&self.root), "root"),
        ];
        let mut known = known.into_iter();
        known.find_map(|(is_there, key)| is_there.then_some(key))
    }
}

impl RawSite {
    /// Returns the first key of an upstream that stands in the configuration since, and
    /// that the document has.
    pub(crate) fn moved_key(&self) -> Option<&'static str> {
        let paths = self.paths.iter().flatten();
        let paths = paths.filter_map(|Table(path)| path.upstream.as_ref());
        let mut upstreams = self.upstream.iter().chain(paths);
        upstreams.find_map(|upstream| match upstream {
            TextOr::Text(_) => None,
            TextOr::Table(raw) => raw.moved_key(),
        })
    }
}

/// Keys of a rule.
#[derive(Clone, Debug)]
pub(crate) struct RawRule {
    pub(crate) action: RawAction,
    pub(crate) rewrite: RawRewrite,
    pub(crate) options: RawOptions,
}

/// Keys that say how requests are answered.
#[derive(Clone, Debug)]
pub(crate) struct RawAction {
    pub(crate) root: Option<String>,
    pub(crate) upstream: Option<TextOr<RawUpstream>>,
    pub(crate) redirect: Option<String>,
    pub(crate) status: Option<i64>,
    pub(crate) text: Option<String>,
}

/// Keys about the path that files or upstream get. No path takes them from the
/// top level.
#[derive(Clone, Debug)]
pub(crate) struct RawRewrite {
    pub(crate) strip: Option<bool>,
    pub(crate) add: Option<String>,
    pub(crate) r#try: Option<Vec<String>>,
}

/// Keys that a path takes from the top level unless it has its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawOptions {
    pub(crate) request: Option<Table<RawFields>>,
    pub(crate) response: Option<Table<RawFields>>,
    pub(crate) hsts: Option<Table<RawHsts>>,
    pub(crate) cache: Option<Pairs>,
    pub(crate) errors: Option<String>,
    pub(crate) body_limit: Option<String>,
    pub(crate) rate: Option<Table<RawRate>>,
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) deny: Option<Vec<String>>,
}

impl RawOptions {
    /// Returns whether no key is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.request.is_none()
            && self.response.is_none()
            && self.hsts.is_none()
            && self.cache.is_none()
            && self.errors.is_none()
            && self.body_limit.is_none()
            && self.rate.is_none()
            && self.allow.is_none()
            && self.deny.is_none()
    }

    /// Takes keys that are missing here from `above`.
    pub(crate) fn or(self, above: &Self) -> Self {
        Self {
            request: self.request.or_else(|| above.request.clone()),
            response: self.response.or_else(|| above.response.clone()),
            hsts: self.hsts.or_else(|| above.hsts.clone()),
            cache: self.cache.or_else(|| above.cache.clone()),
            errors: self.errors.or_else(|| above.errors.clone()),
            body_limit: self.body_limit.or_else(|| above.body_limit.clone()),
            rate: self.rate.or_else(|| above.rate.clone()),
            allow: self.allow.or_else(|| above.allow.clone()),
            deny: self.deny.or_else(|| above.deny.clone()),
        }
    }
}

/// Keys of `request` and `response`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawFields {
    pub(crate) set: Pairs,
    pub(crate) add: Pairs,
    pub(crate) remove: Vec<String>,
}

/// Keys of `hsts`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawHsts {
    pub(crate) max_age: Option<i64>,
    pub(crate) subdomains: bool,
    pub(crate) preload: bool,
}

/// Keys of `rate`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawRate {
    pub(crate) client: Option<i64>,
    pub(crate) host: Option<i64>,
}
