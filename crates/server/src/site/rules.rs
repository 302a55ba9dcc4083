//! Rules of a site, and how one is found for a request.

use std::collections::BTreeSet;

use http::{HeaderValue, Method};
use sekisho_certs::HostName;

use super::path::SitePath;
use super::rule::Rule;

/// Rules of a site, and what holds for the whole host.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRules {
    /// Rules of the top level and of `paths`: the longest prefix first, of one prefix the rule
    /// for that path alone before the others, and rules with methods before one for all.
    pub(super) rules: Box<[Rule]>,
    /// Rules of `redirects`, each for one path, ordered by it. They share the options of the
    /// top level.
    pub(super) moved: Box<[Rule]>,
    /// How requests over plain HTTP are answered.
    pub(super) http: PlainHttp,
    /// Host whose site answers; the other fields but `http` are empty then.
    pub(super) alias: Option<HostName>,
}

impl SiteRules {
    /// Returns the rule of a request: the first that takes its path and method; but an entry
    /// of `redirects` prevails over rules for all paths below a prefix.
    ///
    /// # Errors
    /// If no rule takes the path, or none of those that take it the method.
    pub(super) fn rule(&self, path: &SitePath<'_>, method: &Method) -> Result<&Rule, NoRule> {
        let path = path.as_str();
        let of_path = || self.rules.iter().filter(move |rule| rule.matches(path));
        let found = of_path().find(|rule| rule.takes(method));
        if let Some(rule) = found
            && rule.is_exact
        {
            return Ok(rule);
        }
        let moved = self.find_moved(path).map(|at| &self.moved[at]);
        moved.or(found).ok_or_else(|| match allowed(of_path()) {
            Some(methods) => NoRule::Method(methods),
            None => NoRule::Path,
        })
    }

    /// Returns the index of the rule of `redirects` for a decoded path.
    pub(super) fn find_moved(&self, path: &str) -> Option<usize> {
        let found = self.moved.binary_search_by(|rule| (*rule.prefix).cmp(path));
        found.ok()
    }

    /// Returns the rules that may name folders: those of `redirects` share one `Arc` of options,
    /// so that the first is enough for the folder of `errors`.
    pub(super) fn placed(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(self.moved.first())
    }
}

/// Reason why no rule takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRule {
    /// No rule takes the path.
    Path,
    /// Rules take the path, but with these methods alone, as `Allow` lists them.
    Method(HeaderValue),
}

/// How requests over plain HTTP are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    /// With a redirect to HTTPS.
    #[default]
    Redirect,
    /// By the site.
    Serve,
    /// By the site until the host has a certificate, then with a redirect.
    UntilCertificate,
}

/// Returns the methods of rules, as `Allow` lists them (RFC 9110, section 10.2.1). None
/// without rules.
fn allowed<'a>(rules: impl Iterator<Item = &'a Rule>) -> Option<HeaderValue> {
    // A site has room for 1,024 methods, and no gate is before this.
    let mut names = BTreeSet::new();
    for method in rules.flat_map(|rule| rule.methods.iter().flatten()) {
        names.insert(method.as_str());
        names.extend((*method == Method::GET).then_some("HEAD"));
    }
    // A method is a token, hence the list a value.
    let list = names.iter().copied().collect::<Vec<_>>().join(", ");
    let list = HeaderValue::from_str(&list).ok();
    list.filter(|_| !names.is_empty())
}
