//! Fills `{tenant}` in the folders of a site.

use std::sync::Arc;

use sekisho_certs::Tenant;

use super::error::{Below, Checked, Wrong};
use super::root::Root;
use super::rule::{Action, Rule, RuleOptions};
use super::{Site, SiteError};

impl Site {
    /// Returns the site of a host of this tenant: the same site if no folder
    /// depends on the tenant.
    ///
    /// # Errors
    /// If a folder does, and the tenant's name is no folder's name.
    pub fn of_tenant(&self, tenant: &Tenant) -> Result<Self, SiteError> {
        let mut site = self.clone();
        for (index, rule) in self.0.iter().enumerate() {
            if let Some(filled) = rule_of(rule, tenant)? {
                Arc::make_mut(&mut site.0)[index] = filled;
            }
        }
        Ok(site)
    }
}

/// Returns a rule with filled folders. None if none depends on the tenant.
fn rule_of(rule: &Rule, tenant: &Tenant) -> Checked<Option<Rule>> {
    let fill = |root: &Root| root.fill_tenant(tenant).map_err(Wrong::new);
    let root = match &rule.action {
        Action::Files(root) => fill(root).below("root")?,
        _ => None,
    };
    let errors = match rule.options.as_deref() {
        Some(RuleOptions {
            errors: Some(root), ..
        }) => fill(root).below("errors")?,
        _ => None,
    };
    if root.is_none() && errors.is_none() {
        return Ok(None);
    }
    let mut rule = rule.clone();
    if let Some(root) = root {
        rule.action = Action::Files(root);
    }
    if let (Some(errors), Some(options)) = (errors, &mut rule.options) {
        Arc::make_mut(options).errors = Some(errors);
    }
    Ok(Some(rule))
}
