//! Folders of `[sites] allow`, in which the roots of host records lie.

use std::path::{Component, Path, PathBuf};

use sekisho_certs::Tenant;

use super::folder_of;
use crate::site::template::{TENANT, is_folder_name};

/// Folder as an entry names it. One of its components may hold `{tenant}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Parses an entry. A relative folder lies below `base`.
    pub(super) fn parse(text: &str, base: &Path) -> Result<Self, String> {
        let folder = folder_of(text, base)?;
        if text.replacen(TENANT, "", 1).contains(['{', '}']) {
            return Err(format!("{text:?} has braces other than one {TENANT}"));
        }
        let mut above = folder.ancestors();
        let fixed = above.find(|above| !above.to_string_lossy().contains(TENANT));
        if text.contains(TENANT) && fixed.and_then(Path::parent).is_none() {
            return Err(format!(
                "{} lets a tenant choose a folder of the system; write one that holds sites in \
                 front of {TENANT}, such as \"/srv/www/{TENANT}\"",
                folder.display()
            ));
        }
        Ok(Self(folder))
    }

    /// Returns whether the entry keeps tenants apart.
    pub(super) fn has_tenant(&self) -> bool {
        self.0.to_string_lossy().contains(TENANT)
    }

    /// Returns whether `path` lies in the entry, as this tenant's: in that of any tenant
    /// for none. A host without a tenant lies in no entry with `{tenant}`.
    pub(super) fn holds(&self, path: &Path, tenant: Option<&Tenant>) -> bool {
        let mut own = self.0.components();
        let mut others = path.components();
        own.all(|own| {
            let other = others.next();
            other.is_some_and(|other| matches(own, other, tenant))
        })
    }

    /// Returns the number of components.
    pub(super) fn len(&self) -> usize {
        self.0.components().count()
    }

    /// Returns the number of components that the operator chose: up to and with the one
    /// that holds `{tenant}`. The tenant owns the folders below, and may replace them.
    pub(super) fn len_of_part(&self) -> usize {
        let mut names = self.0.components().map(Component::as_os_str);
        let at = names.position(|name| name.to_string_lossy().contains(TENANT));
        at.map_or_else(|| self.len(), |at| at + 1)
    }
}

/// Returns whether a component of a path is that of an entry.
fn matches(entry: Component<'_>, of_path: Component<'_>, tenant: Option<&Tenant>) -> bool {
    let entry_text = entry.as_os_str().to_str();
    let Some((before, after)) = entry_text.and_then(|text| text.split_once(TENANT)) else {
        return entry == of_path;
    };
    let name = of_path.as_os_str().to_str();
    let name = name
        .and_then(|name| name.strip_prefix(before))
        .and_then(|name| name.strip_suffix(after));
    name.is_some_and(|name| {
        is_folder_name(name) && tenant.is_none_or(|tenant| tenant.as_str() == name)
    })
}
