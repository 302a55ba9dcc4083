//! Bytes that a site takes in memory.

use std::collections::HashSet;
use std::sync::Arc;

use http::{HeaderName, Method};

use super::Site;
use super::auth::{Auth, User};
use super::compress::Compress;
use super::fields::FieldOps;
use super::placeholder::FieldValue;
use super::rule::{Action, CacheRule, Candidate, MediaRange, Rule, RuleOptions};
use super::rules::SiteRules;
use super::script::Scripts;
use super::upstream::{Address, Upstream, UpstreamOptions};
use crate::limits::network::Networks;

impl Site {
    /// Returns the bytes that the site takes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let SiteRules {
            rules,
            moved,
            http: _,
            alias,
        } = &*self.0;
        let mut weight = arc_bytes(size_of::<SiteRules>())
            + option(alias, |name| allocated(name.as_str().len()))
            + list(rules, rule)
            + list(moved, rule);
        // Addresses of what rules share, which counts once.
        let mut shared = HashSet::new();
        for rule in rules.iter().chain(moved) {
            let Some(own) = &rule.options else { continue };
            if shared.insert(Arc::as_ptr(own).addr()) {
                weight += arc_bytes(size_of::<RuleOptions>()) + options(own);
            }
            let Some(users) = &own.auth else { continue };
            if shared.insert(Arc::as_ptr(users).addr()) {
                weight += arc_bytes(size_of::<Auth>()) + auth(users);
            }
        }
        weight
    }
}

/// Returns the bytes of a rule without its options.
fn rule(rule: &Rule) -> usize {
    // Those of usual methods lie in place: some bytes too many.
    let method = |method: &Method| allocated(method.as_str().len());
    allocated(rule.prefix.len())
        + option(&rule.methods, |methods| list(methods, method))
        + action(&rule.action)
}

fn action(action: &Action) -> usize {
    match action {
        Action::Files(root) | Action::Programs(root) => root.template.weight(),
        Action::Scripts(root, scripts) => {
            root.template.weight()
                + arc_bytes(size_of::<Scripts>())
                + list(&scripts.suffixes, |suffix| allocated(suffix.len()))
                + shared_upstream(&scripts.upstream)
        }
        Action::Upstream(upstream) => shared_upstream(upstream),
        Action::Redirect(redirect) => redirect.weight(),
        Action::Status { text, .. } => option(text, |text| arc_bytes(text.len())),
    }
}

fn shared_upstream(upstream: &Upstream) -> usize {
    let servers = list(&upstream.servers, |server| match &server.address {
        Address::Tcp { host, .. } => allocated(host.len()),
        Address::Unix(path) => allocated(path.as_os_str().len()),
    });
    arc_bytes(size_of::<Upstream>())
        + servers
        + option(&upstream.options, |own| {
            allocated(size_of::<UpstreamOptions>()) + upstream_options(own)
        })
}

fn upstream_options(options: &UpstreamOptions) -> usize {
    let text = |text: &Option<Box<str>>| option(text, |text| allocated(text.len()));
    let tls = option(&options.tls, |tls| {
        let of = option(&tls.certificate_of, |name| allocated(name.as_str().len()));
        arc_bytes(size_of_val(&**tls)) + text(&tls.name) + text(&tls.ca) + of
    });
    let cookie = match &options.balance {
        super::Balance::Cookie(name) => allocated(name.len()),
        _ => 0,
    };
    tls + cookie
        + option(&options.host, |host| allocated(host.len()))
        + option(&options.check, |check| allocated(check.path.len()))
}

fn options(options: &RuleOptions) -> usize {
    let cache = |rule: &CacheRule| media(&rule.media) + allocated(rule.value.len());
    let tried = |candidate: &Candidate| match candidate {
        Candidate::Path { before, after } => allocated(before.len()) + allocated(after.len()),
        Candidate::Fixed(path) => allocated(path.len()),
        Candidate::Status(_) => 0,
    };
    let networks = |networks: &Networks| allocated(size_of_val(networks.as_slice()));
    option(&options.add_prefix, |prefix| allocated(prefix.len()))
        + field_ops(&options.request_fields)
        + field_ops(&options.response_fields)
        + option(&options.hsts, |value| allocated(value.len()))
        + list(&options.cache, cache)
        + list(&options.try_files, tried)
        + list(&options.index, |name| allocated(name.len()))
        + list(&options.precompressed, |_| 0)
        + option(&options.compress, |own| compress(own))
        + option(&options.errors, |root| root.template.weight())
        + option(&options.allow, networks)
        + networks(&options.deny)
}

fn compress(compress: &Compress) -> usize {
    allocated(size_of::<Compress>()) + option(&compress.types, |types| list(types, media))
}

fn media(range: &MediaRange) -> usize {
    match range {
        MediaRange::Any => 0,
        MediaRange::Type(text) | MediaRange::Exact(text) => allocated(text.len()),
    }
}

fn auth(auth: &Auth) -> usize {
    let user = |user: &User| allocated(user.name.len()) + allocated(user.hash.as_str().len());
    allocated(auth.challenge.len()) + list(&auth.users, user)
}

fn field_ops(ops: &FieldOps) -> usize {
    let name = |name: &HeaderName| allocated(name.as_str().len());
    let value = |value: &FieldValue| match value {
        FieldValue::Fixed(value) => allocated(value.len()),
        FieldValue::Filled(text) => allocated(text.len()),
    };
    let pair = |(key, of): &(HeaderName, FieldValue)| name(key) + value(of);
    list(&ops.remove, name) + list(&ops.set, pair) + list(&ops.add, pair)
}

/// Returns the bytes of a value that may be there.
fn option<T>(value: &Option<T>, weight: impl Fn(&T) -> usize) -> usize {
    value.as_ref().map_or(0, weight)
}

/// Returns the bytes of a list and of what its items hold.
fn list<T>(items: &[T], weight: impl Fn(&T) -> usize) -> usize {
    allocated(size_of_val(items)) + items.iter().map(weight).sum::<usize>()
}

/// Returns the bytes of an `Arc`'s allocation: the value and two counters.
pub(crate) fn arc_bytes(bytes: usize) -> usize {
    allocated(bytes + 2 * size_of::<usize>())
}

/// Returns the bytes that an allocation of so many takes: jemalloc's size
/// classes, four to each doubling.
pub(crate) fn allocated(bytes: usize) -> usize {
    if bytes <= SMALL {
        return bytes.next_multiple_of(size_of::<usize>() * if bytes > 8 { 2 } else { 1 });
    }
    bytes.next_multiple_of(bytes.next_power_of_two() / 8)
}

/// Up to here, classes lie 16 bytes apart.
const SMALL: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_has_a_size_class() {
        for (bytes, class) in [
            (0, 0),
            (1, 8),
            (9, 16),
            (17, 32),
            (120, 128),
            (128, 128),
            (129, 160),
            (161, 192),
            (250, 256),
            (257, 320),
            (1025, 1280),
        ] {
            assert_eq!(allocated(bytes), class, "{bytes}");
        }
    }
}
