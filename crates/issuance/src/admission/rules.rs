//! Rules that need neither network nor record.

use std::collections::HashSet;

use sekisho_certs::HostPattern;

use crate::names::is_public_suffix;

/// Says why no CA may issue for a pattern: by its syntax, or as a public suffix.
///
/// # Errors
/// The reason, for the operator.
pub fn orderable(pattern: &HostPattern) -> Result<(), String> {
    let name = pattern.wildcard_parent().unwrap_or(pattern.as_str());
    if let Some(label) = name.split('.').find(|label| !is_ldh(label)) {
        return Err(format!("no CA takes the label {label:?}"));
    }
    if is_public_suffix(pattern) {
        return Err(format!("{name} is a public suffix"));
    }
    Ok(())
}

/// Tells whether CAs take a label: letters, digits and hyphens; two hyphens at its third
/// place only in an A-label (CA/Browser Forum Baseline Requirements, section
/// 7.1.2.7.12; RFC 5890, section 2.3.1).
fn is_ldh(label: &str) -> bool {
    let is_reserved = label.get(2..4) == Some("--") && !label.starts_with("xn--");
    !label.contains('_') && !is_reserved
}

/// The operator's lists of patterns. A wildcard stands for itself and for all
/// names one label below it.
#[derive(Debug)]
pub(super) struct Lists {
    /// Empty: all are allowed.
    pub(super) allow: HashSet<HostPattern>,
    /// Outweighs `allow`.
    pub(super) deny: HashSet<HostPattern>,
}

impl Lists {
    pub(super) fn check(&self, pattern: &HostPattern) -> Result<(), String> {
        if contains(&self.deny, pattern) {
            return Err(format!("{pattern} is denied"));
        }
        if !self.allow.is_empty() && !contains(&self.allow, pattern) {
            return Err(format!("{pattern} is none of the allowed patterns"));
        }
        Ok(())
    }
}

fn contains(list: &HashSet<HostPattern>, pattern: &HostPattern) -> bool {
    let above = || pattern.exact().and_then(|name| name.wildcard());
    list.contains(pattern) || above().is_some_and(|above| list.contains(&above))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap()
    }

    #[test]
    fn what_no_ca_takes_is_not_ordered() {
        for name in [
            "a_b.example.com",
            "*._x.example.com",
            "ab--cd.example.com",
            "co.uk",
            "*.co.uk",
            "com",
        ] {
            assert!(orderable(&pattern(name)).is_err(), "{name}");
        }
        for name in [
            "example.com",
            "*.example.com",
            "bücher.example",
            "a--b.example.com",
            "a.github.io",
            "intranet",
        ] {
            assert_eq!(orderable(&pattern(name)), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_denied_pattern_outweighs_an_allowed_one() {
        let list = |names: &[&str]| names.iter().copied().map(pattern).collect();
        let lists = Lists {
            allow: list(&["*.example.com", "other.example"]),
            deny: list(&["bad.example.com", "*.other.example"]),
        };
        let allowed = |name| lists.check(&pattern(name)).is_ok();
        for name in ["a.example.com", "*.example.com", "other.example"] {
            assert!(allowed(name), "{name}");
        }
        for name in [
            "bad.example.com",
            "a.b.example.com",
            "example.com",
            "a.other.example",
            "*.other.example",
        ] {
            assert!(!allowed(name), "{name}");
        }
        let none = Lists {
            allow: HashSet::new(),
            deny: HashSet::new(),
        };
        assert_eq!(none.check(&pattern("a.example")), Ok(()));
    }
}
