//! Registered domains, by the Public Suffix List.
//!
//! The list is compiled in: its age is that of the `psl` crate.

use std::borrow::Borrow;

use psl::{List, Psl, Type};

/// Returns the registered domain of a name or pattern: `example.co.uk` for
/// `a.example.co.uk` and `*.example.co.uk`.
///
/// Suffixes of both sections of the list count, ICANN and private, as Let's
/// Encrypt counts its limits: `a.github.io` is a registered domain. A public
/// suffix itself is its own registered domain, and so is a name of one label.
/// Below a top-level domain that the list lacks, two labels are one.
#[must_use]
pub fn registered_domain<N: Borrow<str>>(name: &N) -> &str {
    let name = without_wildcard(name.borrow());
    List.domain(name.as_bytes())
        .and_then(|domain| std::str::from_utf8(domain.as_bytes()).ok())
        .unwrap_or(name)
}

/// Tells whether a name is a suffix of the list's ICANN section, such as `co.uk`, or
/// a pattern is a wildcard below one. No CA may issue for either (CA/Browser
/// Forum Baseline Requirements, section 3.2.2.6).
///
/// Suffixes of the private section are hosts of their owners, who may have a
/// certificate for them: `github.io` is no public suffix here. Neither is a
/// top-level domain that the list lacks: a private CA may know it.
#[must_use]
pub fn is_public_suffix<N: Borrow<str>>(name: &N) -> bool {
    let name = without_wildcard(name.borrow());
    List.suffix(name.as_bytes()).is_some_and(|suffix| {
        suffix.typ() == Some(Type::Icann) && suffix.as_bytes() == name.as_bytes()
    })
}

fn without_wildcard(name: &str) -> &str {
    name.strip_prefix("*.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use sekisho_certs::{HostName, HostPattern};

    use super::*;

    #[test]
    fn registered_domains_are_counted_as_the_ca_counts_them() {
        for (name, domain) in [
            ("example.com", "example.com"),
            ("a.b.example.com", "example.com"),
            ("*.example.com", "example.com"),
            ("new.blog.example.co.uk", "example.co.uk"),
            // A private suffix: each customer has a domain.
            ("a.github.io", "a.github.io"),
            ("www.a.github.io", "a.github.io"),
            ("github.io", "github.io"),
            // A wildcard rule of the list, and its exception.
            ("shop.any.ck", "shop.any.ck"),
            ("a.shop.any.ck", "shop.any.ck"),
            ("a.www.ck", "www.ck"),
            // Internationalized: below a listed suffix, and the suffix itself.
            ("www.bücher.de", "xn--bcher-kva.de"),
            ("a.食狮.公司.cn", "xn--85x722f.xn--55qx5d.cn"),
            ("co.uk", "co.uk"),
            ("*.co.uk", "co.uk"),
            ("a.b.internal", "b.internal"),
            ("intranet", "intranet"),
        ] {
            let pattern = HostPattern::parse(name).unwrap();
            assert_eq!(registered_domain(&pattern), domain, "{name}");
        }
        let host = HostName::parse("Www.Example.COM.").unwrap();
        assert_eq!(registered_domain(&host), "example.com");
    }

    #[test]
    fn only_suffixes_of_registries_are_public() {
        let public = |name: &str| is_public_suffix(&HostPattern::parse(name).unwrap());
        for name in ["com", "co.uk", "*.co.uk", "any.ck", "公司.cn", "*.公司.cn"] {
            assert!(public(name), "{name}");
        }
        for name in [
            "example.com",
            "*.example.com",
            "www.ck",
            "github.io",
            "*.github.io",
            "食狮.公司.cn",
            "intranet",
            "a.internal",
        ] {
            assert!(!public(name), "{name}");
        }
    }
}
