//! Fills `{tenant}` in the folders and servers of a site.

use std::sync::Arc;

use sekisho_certs::Tenant;

use super::error::{Below, Checked};
use super::root::Root;
use super::rule::{Action, Rule, RuleOptions};
use super::rules::SiteRules;
use super::template::TENANT;
use super::{Site, SiteError};

impl Site {
    /// Returns the site of a host of this tenant: the same site if no folder or server
    /// depends on the tenant.
    ///
    /// # Errors
    /// If one does, and the tenant's name can be no part of it.
    pub fn of_tenant(&self, tenant: &Tenant) -> Result<Self, SiteError> {
        let has_folder = self.bound_folders().any(Root::has_tenant);
        if !has_folder && !self.upstreams().any(|upstream| upstream.has(TENANT)) {
            return Ok(self.clone());
        }
        let mut filled = Filled::default();
        let mut of_rules = |rules: &[Rule]| -> Checked<Box<[Rule]>> {
            let rules = rules.iter();
            rules.map(|rule| rule_of(rule, tenant, &mut filled)).collect()
        };
        let site = &*self.0;
        Ok(Self(Arc::new(SiteRules {
            rules: of_rules(&site.rules)?,
            moved: of_rules(&site.moved)?,
            http: site.http,
            alias: site.alias.clone(),
        })))
    }
}

/// Options that were filled, with those that they were made of: rules share them.
#[derive(Default)]
struct Filled(Vec<(Arc<RuleOptions>, Arc<RuleOptions>)>);

impl Filled {
    /// Returns options with a filled folder of error pages, the same for all rules that share
    /// them: a copy for each of 1,000 redirects would take megabytes.
    fn options(
        &mut self,
        options: &Arc<RuleOptions>,
        tenant: &Tenant,
    ) -> Checked<Arc<RuleOptions>> {
        if !options.errors.as_ref().is_some_and(Root::has_tenant) {
            return Ok(Arc::clone(options));
        }
        let mut known = self.0.iter();
        if let Some((_, filled)) = known.find(|(from, _)| Arc::ptr_eq(from, options)) {
            return Ok(Arc::clone(filled));
        }
        let mut own = RuleOptions::clone(options);
        if let Some(errors) = &mut own.errors {
            errors.template.fill_tenant(tenant).below("errors")?;
        }
        let filled = Arc::new(own);
        self.0.push((Arc::clone(options), Arc::clone(&filled)));
        Ok(filled)
    }
}

/// Returns a rule with filled folders and servers.
fn rule_of(rule: &Rule, tenant: &Tenant, filled: &mut Filled) -> Checked<Rule> {
    let mut rule = rule.clone();
    match &mut rule.action {
        Action::Files(root) => root.template.fill_tenant(tenant).below("root")?,
        Action::Scripts(root, scripts) => {
            if scripts.upstream.has(TENANT) {
                let filled = scripts.upstream.of_tenant(tenant).below("fastcgi")?;
                Arc::make_mut(scripts).upstream = Arc::new(filled);
            }
            root.template.fill_tenant(tenant).below("root")?;
        }
        Action::Upstream(upstream) if upstream.has(TENANT) => {
            *upstream = Arc::new(upstream.of_tenant(tenant).below("upstream")?);
        }
        // No tenant has programs.
        Action::Upstream(_) | Action::Programs(_) | Action::Redirect(_) | Action::Status { .. } => {
        }
    }
    if let Some(options) = &mut rule.options {
        *options = filled.options(options, tenant)?;
    }
    Ok(rule)
}
