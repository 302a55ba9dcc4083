//! Keys of a site document as written, in JSON or in `[site]`. `check.rs` makes
//! a site of them.

mod forms;
mod upstream;
mod wording;

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::error::{SiteError, Wrong};
use super::redirect::is_later;
use super::template::TENANT;
use super::{MAX_DOCUMENT, MAX_EARLIER};
pub(crate) use forms::{BoolOr, Pairs, Table, TextOr, TextOrNumber};
pub(crate) use upstream::{
    RawCheck, RawCookie, RawFastCgi, RawServer, RawTimeouts, RawTls, RawUpstream,
};
pub use wording::reworded;

/// Declares the keys of a rule: its own, and options, which a path takes from the top
/// level unless it has them.
macro_rules! rule_keys {
    (own { $($own:ident: $own_type:ty,)+ } options { $($option:ident: $option_type:ty,)+ }) => {
        /// Keys of a site as written, or of an item of its `paths`, whose own `paths` are not
        /// read: a reader that follows them needs room for as many levels as a text has.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct RawSite<I = Table<RawSite<IgnoredAny>>> {
            $(pub(crate) $own: $own_type,)+
            $(pub(crate) $option: $option_type,)+
        }

        impl<I> RawSite<I> {
            /// Returns the names of the keys that are there.
            pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
                let own = [$((stringify!($own), self.$own.is_some()),)+];
                let options = [$((stringify!($option), self.$option.is_some()),)+];
                let there = own.into_iter().chain(options).filter(|(_, is_there)| *is_there);
                there.map(|(name, _)| name.trim_start_matches("r#"))
            }

            /// Returns whether an option is there.
            pub(crate) fn has_options(&self) -> bool {
                [$(self.$option.is_some(),)+].contains(&true)
            }

            /// Takes options that are missing here from `above`.
            pub(crate) fn or(self, above: &RawSite) -> Self {
                Self {
                    $($option: self.$option.or_else(|| above.$option.clone()),)+
                    ..self
                }
            }
        }
    };
}

rule_keys! {
    own {
        paths: Option<Vec<I>>,
        path: Option<String>,
        methods: Option<Vec<String>>,
        root: Option<String>,
        fastcgi: Option<TextOr<RawFastCgi>>,
        cgi: Option<bool>,
        upstream: Option<TextOr<RawUpstream>>,
        redirect: Option<String>,
        status: Option<i64>,
        text: Option<String>,
        strip: Option<bool>,
        add: Option<String>,
        r#try: Option<Vec<String>>,
        redirects: Option<Pairs>,
        http: Option<String>,
        r#as: Option<String>,
    }
    options {
        request: Option<Table<RawFields>>,
        response: Option<Table<RawFields>>,
        hsts: Option<Table<RawHsts>>,
        cache: Option<Pairs>,
        index: Option<Vec<String>>,
        precompressed: Option<Vec<String>>,
        compress: Option<BoolOr<RawCompress>>,
        errors: Option<String>,
        upstream_errors: Option<bool>,
        body_limit: Option<String>,
        rate: Option<Table<RawRate>>,
        in_flight: Option<i64>,
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
        auth: Option<BoolOr<RawAuth>>,
        client_certificate: Option<bool>,
    }
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
            return Err(SiteError::TooLong(json.len(), MAX_DOCUMENT));
        }
        match serde_json::from_str(json) {
            Ok(Table(raw)) => Ok(raw),
            // Paths of keys are noted only for a document that has a wrong one.
            Err(error) if error.is_data() => {
                Self::read(&mut serde_json::Deserializer::from_str(json))
            }
            Err(error) => Err(SiteError::Syntax(error.to_string())),
        }
    }

    /// Returns the oldest format that has all keys of the document, and the key that needs
    /// it.
    pub(crate) fn format(&self) -> (u32, &'static str) {
        let of_paths = self.paths.iter().flatten().map(|path| path.own_format());
        let all = of_paths.chain([self.own_format()]);
        all.max_by_key(|(format, _)| *format).unwrap_or((1, ""))
    }

    /// Returns the format that the document of so many bytes is written in: braces in values of
    /// fields are placeholders then, but text in stored documents of earlier formats.
    pub(crate) fn written_format(&self, bytes: usize) -> u32 {
        let mut paths = self.paths.iter().flatten();
        let has_braces = self.has_braces() || paths.any(|path| path.has_braces());
        match has_braces || bytes > MAX_EARLIER {
            true => 3,
            false => self.format().0,
        }
    }

    /// Doubles the braces in values of fields, which are text in documents of earlier formats.
    pub(crate) fn escape_braces(&mut self) {
        let paths = self.paths.iter_mut().flatten();
        paths.for_each(|path| path.0.escape_own_braces());
        self.escape_own_braces();
    }
}

impl<I> RawSite<I> {
    fn own_format(&self) -> (u32, &'static str) {
        let keys = self.names().map(|name| (format_of(name), name));
        let root = self.root.as_ref().filter(|root| root.contains(TENANT));
        let upstream = self.upstream.as_ref().filter(|it| it.has_placeholder());
        let is_exact = |path: &&String| path.starts_with("= ");
        let path = self.path.as_ref().filter(is_exact);
        let redirect = self.redirect.as_ref();
        let target = redirect.filter(|target| is_later(target));
        let status = redirect.filter(|_| self.status == Some(303));
        let rate = self.rate.as_ref().filter(|rate| rate.burst.is_some());
        let values = [
            root.map(|_| (2, "root")),
            upstream.map(|_| (3, "upstream")),
            path.map(|_| (3, "path")),
            target.map(|_| (3, "redirect")),
            status.map(|_| (3, "status")),
            rate.map(|_| (3, "rate")),
        ];
        let all = keys.chain(values.into_iter().flatten());
        all.max_by_key(|(format, _)| *format).unwrap_or((1, ""))
    }

    fn escape_own_braces(&mut self) {
        for fields in [&mut self.request, &mut self.response]
            .into_iter()
            .flatten()
        {
            for (_, value) in fields.0.set.0.iter_mut().chain(&mut fields.0.add.0) {
                *value = value.replace('{', "{{").replace('}', "}}");
            }
        }
    }

    /// Returns whether a value of a field has braces.
    fn has_braces(&self) -> bool {
        let fields = [&self.request, &self.response].into_iter().flatten();
        let mut pairs = fields.flat_map(|fields| fields.set.0.iter().chain(&fields.add.0));
        pairs.any(|(_, value)| value.contains(['{', '}']))
    }
}

/// Returns the first format that has a key.
fn format_of(key: &str) -> u32 {
    match key {
        "root" | "redirect" | "status" => 1,
        "add" | "allow" | "body_limit" | "cache" | "deny" | "errors" | "hsts" | "path"
        | "paths" | "rate" | "request" | "response" | "strip" | "text" | "try" | "upstream" => 2,
        _ => 3,
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

/// Keys of `compress`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCompress {
    pub(crate) types: Option<Vec<String>>,
    pub(crate) level: Option<i64>,
    pub(crate) upstream: bool,
    pub(crate) cookies: bool,
}

/// Keys of `auth`.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawAuth {
    pub(crate) realm: Option<String>,
    pub(crate) users: Pairs,
}

impl fmt::Debug for RawAuth {
    /// Leaves out the hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RawAuth");
        shown.field("realm", &self.realm).finish_non_exhaustive()
    }
}

/// Keys of `rate`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawRate {
    pub(crate) client: Option<i64>,
    pub(crate) burst: Option<i64>,
    pub(crate) host: Option<i64>,
}
