//! Sites: how requests to a host are answered.

mod allow;
mod auth;
pub(crate) mod body;
mod check;
mod compress;
mod document;
mod error;
mod fields;
mod guard;
mod htpasswd;
mod named;
pub(crate) mod open;
mod password;
mod path;
mod placeholder;
mod redirect;
pub(crate) mod reserved;
mod root;
mod rule;
mod rules;
mod script;
mod template;
mod tenant;
mod upstream;
pub mod value;
mod weight;

use std::path::Path;
use std::sync::Arc;

use http::{HeaderName, Method, StatusCode};
use sekisho_certs::{HostName, HostPattern, Site as StoredSite, Tenant};

pub use allow::{Allowed, OwnAddress, OwnAddresses};
pub use document::{RawSite, reworded};
pub use error::{SiteError, Wrong};
pub use guard::{Guard, OwnFiles, Refusal, Refusals};
pub use htpasswd::login;
pub use named::NamedFields;
pub(crate) use root::Root;
use rules::SiteRules;
pub(crate) use weight::{allocated, arc_bytes};
pub(crate) use {
    auth::{Auth, User},
    compress::{Coding, Compress},
    fields::FieldOps,
    guard::OpenSocket,
    open::{locate_beneath, open_beneath},
    password::PasswordHash,
    path::SitePath,
    placeholder::Fill,
    redirect::{redirect_to, to_https},
    rule::{Action, CacheRule, Candidate, Rule, RuleOptions},
    rules::{NoRule, PlainHttp},
    script::Scripts,
    upstream::{
        ActiveCheck, Address, Balance, Protocol, ProxyVersion, Scheme, Upstream, UpstreamOptions,
        UpstreamTimeouts, UpstreamTls,
    },
};
#[cfg(fuzzing)]
pub use {password::verify_password, path::site_path};
#[cfg(test)]
pub(crate) use {
    placeholder::FieldValue, rule::MediaRange, template::Template, upstream::UpstreamServer,
};

/// Checked site of a host record or of `[site]`: rules by the path of a request.
/// docs/sites.md describes the document.
#[derive(Clone, Debug)]
pub struct Site(Arc<SiteRules>);

impl Site {
    /// Parses the document of a host record of this tenant.
    ///
    /// # Errors
    /// If the format is unknown, or the document is invalid, or has a key or value that only
    /// later formats have.
    pub fn parse(stored: &StoredSite, tenant: &Tenant) -> Result<Self, SiteError> {
        if !FORMATS.contains(&stored.format) {
            return Err(SiteError::Format(stored.format));
        }
        let is_earlier = stored.format < WITH_PLACEHOLDERS;
        if is_earlier && stored.json.len() > MAX_EARLIER {
            return Err(SiteError::TooLong(stored.json.len(), MAX_EARLIER));
        }
        let mut raw = RawSite::read_json(&stored.json)?;
        let (needed, key) = raw.format();
        if needed > stored.format {
            let text = format!(
                "format {} has no such key; write the site again with `sekisho host set`",
                stored.format
            );
            return Err(Wrong::at([key.to_owned()], text).into());
        }
        if is_earlier {
            raw.escape_braces();
        }
        let checked = raw.check(None).map_err(|error| match error {
            SiteError::Wrong(wrong) if named::is_moved(wrong.key()) => SiteError::Moved(wrong),
            error => error,
        });
        checked?.of_tenant(tenant)
    }

    /// Makes the site that answers every request with 404.
    #[must_use]
    pub fn not_found() -> Self {
        Self::of_status(StatusCode::NOT_FOUND)
    }

    /// Makes the site that answers every request with 503.
    pub(crate) fn unavailable() -> Self {
        Self::of_status(StatusCode::SERVICE_UNAVAILABLE)
    }

    fn of_status(code: StatusCode) -> Self {
        let rule = Rule {
            prefix: Box::default(),
            is_exact: false,
            methods: None,
            action: Action::Status { code, text: None },
            options: None,
        };
        Self(Arc::new(SiteRules {
            rules: [rule].into(),
            ..SiteRules::default()
        }))
    }

    /// Returns the rule of a request by its path and method: one for that path alone, else
    /// that with the longest prefix which ends at a segment of it.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn rule(&self, path: &SitePath<'_>, method: &Method) -> Result<&Rule, NoRule> {
        self.0.rule(path, method)
    }

    /// Returns how requests over plain HTTP are answered.
    pub(crate) fn http(&self) -> PlainHttp {
        self.0.http
    }

    /// Returns the host whose site answers in this one's place.
    #[must_use]
    pub fn alias(&self) -> Option<&HostName> {
        self.0.alias.as_ref()
    }

    /// Returns whether both are the same site in memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the folders that the site serves from, as they were written.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.bound_folders().map(|root| &*root.template.text)
    }

    /// Returns the folders of the site's programs, as they were written.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.program_folders().map(|root| &*root.template.text)
    }

    /// Returns what `guard` refuses of the site of a tenant's host, as far as that is
    /// known before a request; for none, what it refuses whoever has the host. Blocks: it
    /// reads folders.
    #[must_use]
    pub fn refused(&self, guard: &Guard, tenant: Option<&Tenant>) -> Option<Refused> {
        self.refused_by(guard, tenant, |root| guard.inspect(root, tenant))
    }

    /// Asks `guard` whether the host record of a tenant may have the site, by its text
    /// alone. If not, counts and logs the refusal and returns false.
    pub(crate) fn admit(&self, pattern: &HostPattern, tenant: &Tenant, guard: &Guard) -> bool {
        let inspect = |root: &Root| guard.inspect_text(root, Some(tenant));
        let refused = self.refused_by(guard, Some(tenant), inspect);
        if let Some(Refused { what, refusal, .. }) = &refused {
            guard.note_site((pattern, tenant), what, *refusal);
        }
        refused.is_none()
    }

    /// Returns what is refused first of the folders, programs, upstreams and fields.
    fn refused_by(
        &self,
        guard: &Guard,
        tenant: Option<&Tenant>,
        inspect: impl Fn(&Root) -> Option<Refusal>,
    ) -> Option<Refused> {
        let mut roots = self.bound_folders();
        let root =
            roots.find_map(|root| Some((inspect(root)?, "root", root.template.text.to_string())));
        let programs = || {
            let mut programs = self.program_folders();
            let root = programs.find(|root| guard.programs(root).is_none())?;
            let what = root.template.text.to_string();
            Some((Refusal::Programs, "root", what))
        };
        let upstream = || {
            let mut upstreams = self.upstreams();
            let address = upstreams.find_map(|one| guard.inspect_upstream(one, tenant))?;
            Some((Refusal::Upstream, "upstream", address.to_string()))
        };
        let field = || {
            let (name, key) = self.changed_field(guard.fields())?;
            Some((Refusal::Field(key), "field", name.to_string()))
        };
        let refused = root.or_else(programs).or_else(upstream).or_else(field);
        let (refusal, kind, what) = refused?;
        Some(Refused {
            kind,
            what,
            refusal,
        })
    }

    /// Returns the first field of a rule with an upstream that only the server sets, and
    /// the key of `[sites]` that names it.
    pub fn changed_field(&self, named: &NamedFields) -> Option<(HeaderName, &'static str)> {
        let rules = self.0.rules.iter();
        rules
            .filter(|rule| rule.action.passes_on().is_some())
            .filter_map(|rule| rule.options.as_ref())
            .find_map(|options| named.changed_by(&options.request_fields))
    }

    /// Returns whether entries of `[sites] allow` with `{tenant}` keep the folders of the
    /// site from those of other tenants.
    #[must_use]
    pub fn keeps_apart(&self, guard: &Guard) -> bool {
        self.bound_folders().all(|root| guard.keeps_apart(root))
    }

    /// Returns the FastCGI servers that are not a tenant's own: their sockets neither have the
    /// tenant's name, as `acme.sock` has, nor lie in a folder of that name, and their hosts do
    /// not begin with it. Other tenants' scripts may run there. Hosts without a tenant are
    /// the operator's.
    #[must_use]
    pub fn common_pools(&self, tenant: &Tenant) -> Vec<String> {
        let upstreams = self.upstreams().filter(|it| it.scheme == Scheme::FastCgi);
        let addresses = upstreams.flat_map(|it| it.servers.iter().map(|it| &it.address));
        let name = tenant.as_str();
        let common = addresses.filter(|it| !name.is_empty() && !it.is_named_by(name));
        common.map(ToString::to_string).collect()
    }

    /// Returns roots, and folders of error pages.
    fn bound_folders(&self) -> impl Iterator<Item = &Root> {
        self.0.placed().flat_map(|rule| {
            let options = rule.options.as_ref();
            let errors = options.and_then(|options| options.errors.as_ref());
            rule.action.root().into_iter().chain(errors)
        })
    }

    fn program_folders(&self) -> impl Iterator<Item = &Root> {
        let rules = self.0.rules.iter();
        rules.filter_map(|rule| rule.action.programs())
    }

    fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        let rules = self.0.rules.iter();
        let upstreams = rules.filter_map(|rule| rule.action.upstream());
        upstreams.map(|upstream| &**upstream)
    }
}

impl RawSite {
    /// Checks the keys. `base` is the configuration's folder for `[site]`, None
    /// for a host record; a relative folder lies below it.
    ///
    /// # Errors
    /// [`SiteError`] says which key is wrong, and what to write.
    pub fn check(self, base: Option<&Path>) -> Result<Site, SiteError> {
        Ok(Site(Arc::new(check::site_rules(self, base)?)))
    }
}

/// Document of a host's site, read and checked, for whichever tenant has the host.
#[derive(Clone, Debug)]
pub struct SiteDocument {
    stored: StoredSite,
    site: Site,
}

impl SiteDocument {
    /// Reads a document in JSON, and checks its keys.
    ///
    /// # Errors
    /// If the document is invalid.
    pub fn parse(json: &str) -> Result<Self, SiteError> {
        let raw = RawSite::read_json(json)?;
        Ok(Self {
            stored: StoredSite {
                format: raw.written_format(json.len()),
                json: json.into(),
            },
            site: raw.check(None)?,
        })
    }

    /// Returns the site of a tenant.
    ///
    /// # Errors
    /// If a folder or server has `{tenant}`, and the name can be no part of it.
    pub fn site(&self, tenant: &Tenant) -> Result<Site, SiteError> {
        self.site.of_tenant(tenant)
    }

    /// Returns whether the site names folders or servers, which `[sites] allow` bounds.
    #[must_use]
    pub fn names_places(&self) -> bool {
        self.site.program_folders().next().is_some()
            || self.site.bound_folders().next().is_some()
            || self.site.upstreams().next().is_some()
    }

    /// Returns the form that a host record has, in the oldest format that suffices.
    #[must_use]
    pub fn stored(&self) -> &StoredSite {
        &self.stored
    }
}

/// Part of a site that a [`Guard`] refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {what}: {refusal}")]
pub struct Refused {
    /// `root`, `upstream` or `field`.
    kind: &'static str,
    what: String,
    refusal: Refusal,
}

/// Bytes of the longest document: 1,000 redirects of 250 bytes.
pub const MAX_DOCUMENT: usize = 256 << 10;
/// Bytes of the longest document of an earlier format.
const MAX_EARLIER: usize = 64 << 10;
/// First format in which braces of fields' values are placeholders.
const WITH_PLACEHOLDERS: u32 = 3;
/// Document formats that this version reads.
const FORMATS: std::ops::RangeInclusive<u32> = 1..=3;

#[cfg(test)]
mod tests;
