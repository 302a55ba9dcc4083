//! Makes a site of its document's keys.

mod action;
mod auth;
mod coding;
mod fastcgi;
mod fields;
mod options;
mod paths;
mod servers;
mod top;
mod upstream;

use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::document::RawSite;
use super::error::{Below, Checked, Wrong, at_most, checked};
use super::rule::{Action, Rule, RuleOptions};
use super::rules::SiteRules;
use action::action;
pub(super) use auth::check_user;
pub(super) use fields::{MAX_VALUE, field_name, field_value};
use paths::{candidates, methods, plain_prefix, prefix};

/// Checks all keys. `base` is the configuration's folder for `[site]`, None for a host record;
/// relative folders lie below it.
pub(super) fn site_rules(mut top: RawSite, base: Option<&Path>) -> Checked<SiteRules> {
    let http = checked("http", top.http.take().as_deref(), top::plain_http)?;
    let http = http.unwrap_or_default();
    if let Some(name) = top.r#as.take() {
        let alias = top::alias(&name, &top, base).below("as")?;
        return Ok(SiteRules {
            http,
            alias: Some(alias),
            ..SiteRules::default()
        });
    }
    top.refuse(&["path"], "only items of `paths` have a path")?;
    top.refuse(&["methods"], "only items of `paths` have methods")?;
    let shared = shared_options(&top, base)?;
    // Paths share the users: 64 copies of 1,000 would take megabytes, and time to check.
    top.auth = None;
    let redirects = top.redirects.take();
    let moved = |raw: &_| top::moved(raw, shared.as_ref());
    let moved = checked("redirects", redirects.as_ref(), moved)?.unwrap_or_default();
    let rules = rules(top, shared.as_ref(), !moved.is_empty(), base)?;
    let rules = SiteRules {
        rules: rules.into(),
        moved,
        http,
        alias: None,
    };
    let exact = rules.rules.iter().filter(|rule| rule.is_exact);
    let mut paths = exact.map(|rule| &*rule.prefix);
    match paths.find(|path| rules.find_moved(path).is_some()) {
        Some(path) => Err(Wrong::new(TWICE)).below(path).below("redirects"),
        None => Ok(rules),
    }
}

/// Checks the answer of the top level, and `paths`.
fn rules(
    mut top: RawSite,
    shared: Option<&Arc<RuleOptions>>,
    has_moved: bool,
    base: Option<&Path>,
) -> Checked<Vec<Rule>> {
    let paths = top.paths.take().unwrap_or_default();
    at_most(MAX_PATHS, paths.len(), "paths").below("paths")?;
    let mut rules = Vec::with_capacity(paths.len() + 1);
    if top.has_action() || paths.is_empty() && !has_moved {
        rules.push(top_rule(&top, shared, base)?);
    } else {
        let text = "no path takes it from the top level; write it in `paths`";
        top.refuse(&REWRITES, text)?;
    }
    for (index, raw) in paths.into_iter().enumerate() {
        let rule = path_rule(raw.0, index, (&top, shared), base);
        let is_taken = |rule: &Rule| rules.iter().any(|other: &Rule| is_same(rule, other));
        let rule = rule.and_then(|rule| match is_taken(&rule) {
            true => Err(Wrong::new(TWICE)).below("path"),
            false => Ok(rule),
        });
        rules.push(rule.below(&index.to_string()).below("paths")?);
    }
    reach_upstreams(&rules, shared.map(Arc::as_ref))?;
    share_scripts(&mut rules);
    // `SiteRules::rule` takes the first that matches.
    rules.sort_by_key(|rule| {
        let length = std::cmp::Reverse(rule.prefix.len());
        (length, !rule.is_exact, rule.methods.is_none())
    });
    Ok(rules)
}

/// Returns whether two rules are for the same path and a method that both take.
fn is_same(one: &Rule, other: &Rule) -> bool {
    if (&one.prefix, one.is_exact) != (&other.prefix, other.is_exact) {
        return false;
    }
    match (&one.methods, &other.methods) {
        (None, None) => true,
        (Some(of_one), Some(of_other)) => {
            of_one.iter().any(|it| other.takes(it)) || of_other.iter().any(|it| one.takes(it))
        }
        // The rule for all methods is for those that the other leaves.
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Knows scripts also below the roots of other rules that lie in one with scripts: else they
/// would be served as text there. The same servers run them, unless the rule says that none do.
fn share_scripts(rules: &mut [Rule]) {
    let with_scripts = rules.iter().filter_map(|rule| match &rule.action {
        Action::Scripts(root, scripts) if scripts.are_run() => {
            Some((root.clone(), Arc::clone(scripts)))
        }
        _ => None,
    });
    let with_scripts: Vec<_> = with_scripts.collect();
    for rule in rules {
        let (root, upstream) = match &rule.action {
            Action::Files(root) => (root, None),
            Action::Scripts(root, own) if !own.are_run() => (root, Some(&own.upstream)),
            _ => continue,
        };
        let folder = Path::new(&*root.template.text);
        let mut above = with_scripts.iter();
        let shared = above.find(|(root, _)| folder.starts_with(&*root.template.text));
        if let Some((_, scripts)) = shared {
            let mut scripts = Arc::clone(scripts);
            if let Some(upstream) = upstream {
                Arc::make_mut(&mut scripts).upstream = Arc::clone(upstream);
            }
            rule.action = Action::Scripts(root.clone(), scripts);
        }
    }
}

/// Checks the options of the top level, which all paths share.
fn shared_options(raw: &RawSite, base: Option<&Path>) -> Checked<Option<Arc<RuleOptions>>> {
    let options = || options::rule_options(raw, (0, 0), base).map(Arc::new);
    raw.has_options().then(options).transpose()
}

fn top_rule(raw: &RawSite, above: Option<&Arc<RuleOptions>>, base: Option<&Path>) -> Checked<Rule> {
    let action = action(raw, base)?;
    let text = "the top level has no prefix to strip; write it in `paths`";
    raw.refuse(&["strip"], text)?;
    let own = raw.rewrite(&action, above.map(Arc::as_ref))?;
    Ok(Rule {
        prefix: Box::default(),
        is_exact: false,
        methods: None,
        action,
        options: own.map(Arc::new).or_else(|| above.cloned()),
    })
}

fn path_rule(
    raw: RawSite<IgnoredAny>,
    index: usize,
    (above, shared): (&RawSite, Option<&Arc<RuleOptions>>),
    base: Option<&Path>,
) -> Checked<Rule> {
    if let Some(key) = raw.names().find(|name| TOP_KEYS.contains(name)) {
        return Err(Wrong::new(format!("only the top level has `{key}`"))).below(key);
    }
    let (prefix, is_exact) = prefix(raw.path.as_deref()).below("path")?;
    let methods = checked("methods", raw.methods.as_deref(), methods)?;
    let action = action(&raw, base)?;
    // Wrong keys are reported here only if they are the path's own: those above have been
    // checked.
    if action.passes_on().is_none() {
        let text = "only `upstream`, `fastcgi` and `cgi` get request fields";
        raw.refuse(&["request"], text)?;
    }
    if action.root().is_none() {
        raw.refuse(&["index"], "only a `root` has one")?;
    }
    let has_request = raw.request.is_some();
    // What a path's own keys count is counted apart from other paths.
    let scope = |is_own: bool| if is_own { index + 1 } else { 0 };
    let scopes = (scope(raw.rate.is_some()), scope(raw.in_flight.is_some()));
    let has_options = raw.has_options();
    let has_users = raw.auth.is_some();
    let raw = if has_options { raw.or(above) } else { raw };
    let own = has_options.then(|| options::rule_options(&raw, scopes, base));
    let mut own = own.transpose()?;
    if let (false, Some(own), Some(shared)) = (has_users, &mut own, shared) {
        own.auth.clone_from(&shared.auth);
    }
    if let (true, Some(options), Some(own)) = (has_request, action.passes_on(), &own) {
        fields::reach(&own.request_fields, options).below("request")?;
    }
    let options = own.as_ref().or(shared.map(Arc::as_ref));
    let rewritten = raw.rewrite(&action, options)?;
    Ok(Rule {
        prefix,
        is_exact,
        methods,
        action,
        options: rewritten.or(own).map(Arc::new).or_else(|| shared.cloned()),
    })
}

/// Checks whether upstreams get the request fields of the top level. Those of a path are
/// checked with it.
fn reach_upstreams(rules: &[Rule], shared: Option<&RuleOptions>) -> Checked<()> {
    let Some(shared) = shared else { return Ok(()) };
    for rule in rules {
        if let (Some(passed), Some(options)) = (rule.action.passes_on(), &rule.options)
            && options.request_fields == shared.request_fields
        {
            fields::reach(&shared.request_fields, passed).below("request")?;
        }
    }
    Ok(())
}

impl<I> RawSite<I> {
    /// Returns whether a key says how requests are answered.
    fn has_action(&self) -> bool {
        self.names().any(|name| ANSWER_KEYS.contains(&name))
    }

    /// Refuses keys that mean nothing where they stand; `text` says what to write.
    fn refuse(&self, keys: &[&str], text: &str) -> Checked<()> {
        match self.names().find(|name| keys.contains(name)) {
            Some(key) => Err(Wrong::new(text)).below(key),
            None => Ok(()),
        }
    }

    /// Returns a copy of options with the keys about the path; none if there is no such key.
    fn rewrite(
        &self,
        action: &Action,
        options: Option<&RuleOptions>,
    ) -> Checked<Option<RuleOptions>> {
        if action.root().is_none() && action.passes_on().is_none() {
            self.refuse(&["strip", "add"], "only `root` and `upstream` get a path")?;
        }
        if action.root().is_none() {
            self.refuse(&["try"], "only a `root` tries paths")?;
        }
        if self.strip != Some(true) && self.add.is_none() && self.r#try.is_none() {
            return Ok(None);
        }
        Ok(Some(RuleOptions {
            strip_prefix: self.strip.unwrap_or_default(),
            add_prefix: checked("add", self.add.as_deref(), plain_prefix)?,
            try_files: checked("try", self.r#try.as_deref(), candidates)?.unwrap_or_default(),
            ..options.cloned().unwrap_or_default()
        }))
    }
}

/// Keys that say how requests are answered.
const ANSWER_KEYS: [&str; 7] = [
    "root", "fastcgi", "cgi", "upstream", "redirect", "status", "text",
];

/// Keys of the top level alone.
const TOP_KEYS: [&str; 4] = ["paths", "redirects", "http", "as"];

/// Keys about the path that files or upstream get. No path takes them from the top level.
const REWRITES: [&str; 3] = ["strip", "add", "try"];

/// Paths of one site.
pub(super) const MAX_PATHS: usize = 64;
const TWICE: &str = "the path stands twice; the top level stands for \"/\"";
