//! Fills `{tenant}` in the folders and servers of a site.

use std::sync::Arc;

use sekisho_certs::Tenant;

use super::error::{Below, Checked};
use super::root::Root;
use super::rule::{Action, Rule};
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
        let site = &*self.0;
        let rules = site.rules.iter().map(|rule| rule_of(rule, tenant));
        let mut moved = site.moved.clone();
        if let Some(first) = moved.first() {
            // A copy of the options for each of 1,000 redirects would take megabytes.
            let shared = rule_of(first, tenant)?.options;
            for rule in &mut moved {
                rule.options.clone_from(&shared);
            }
        }
        Ok(Self(Arc::new(SiteRules {
            rules: rules.collect::<Checked<_>>()?,
            moved,
            http: site.http,
            alias: site.alias.clone(),
        })))
    }
}

/// Returns a rule with filled folders and servers.
fn rule_of(rule: &Rule, tenant: &Tenant) -> Checked<Rule> {
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
    if let Some(options) = &mut rule.options
        && options.errors.as_ref().is_some_and(Root::has_tenant)
        && let Some(errors) = &mut Arc::make_mut(options).errors
    {
        errors.template.fill_tenant(tenant).below("errors")?;
    }
    Ok(rule)
}
