//! Fills `{tenant}` in the folders and servers of a site.

use std::sync::Arc;

use sekisho_certs::Tenant;

use super::error::{Below, Checked, Wrong};
use super::rule::Rule;
use super::{Site, SiteError};

impl Site {
    /// Returns the site of a host of this tenant: the same site if no folder or server
    /// depends on the tenant.
    ///
    /// # Errors
    /// If one does, and the tenant's name can be no part of it.
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

/// Returns a rule with filled folders and servers. None if none depends on the tenant.
fn rule_of(rule: &Rule, tenant: &Tenant) -> Checked<Option<Rule>> {
    let action = rule.action.of_tenant(tenant)?;
    let errors = rule.options.as_deref();
    let errors = match errors.and_then(|options| options.errors.as_ref()) {
        Some(root) => root
            .fill_tenant(tenant)
            .map_err(Wrong::new)
            .below("errors")?,
        None => None,
    };
    if action.is_none() && errors.is_none() {
        return Ok(None);
    }
    let mut rule = rule.clone();
    if let Some(action) = action {
        rule.action = action;
    }
    if let (Some(errors), Some(options)) = (errors, &mut rule.options) {
        Arc::make_mut(options).errors = Some(errors);
    }
    Ok(Some(rule))
}
