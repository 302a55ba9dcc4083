//! Bytes that a site takes in memory.

use std::sync::Arc;

use super::Site;
use super::fields::FieldOps;
use super::rule::{Action, Candidate, MediaRange, Rule, RuleOptions};
use super::upstream::{Address, Upstream, UpstreamOptions};

impl Site {
    /// Returns the bytes that the site takes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let mut weight = arc_bytes(size_of_val(&*self.0));
        for (index, rule) in self.0.iter().enumerate() {
            weight += allocated(rule.prefix.len()) + action(&rule.action);
            let Some(own) = &rule.options else { continue };
            let before = self.0[..index].iter();
            let mut before = before.filter_map(|rule: &Rule| rule.options.as_ref());
            if !before.any(|other| Arc::ptr_eq(own, other)) {
                weight += arc_bytes(size_of::<RuleOptions>()) + options(own);
            }
        }
        weight
    }
}

fn action(action: &Action) -> usize {
    match action {
        Action::Files(root) => root.template.weight(),
        Action::Upstream(one) => arc_bytes(size_of::<Upstream>()) + upstream(one),
        Action::Redirect(redirect) => redirect.weight(),
        Action::Status { text, .. } => text.as_ref().map_or(0, |text| arc_bytes(text.len())),
    }
}

fn upstream(upstream: &Upstream) -> usize {
    let servers = upstream.servers.iter().map(|server| match &server.address {
        Address::Tcp { host, .. } => allocated(host.len()),
        Address::Unix(path) => allocated(path.as_os_str().len()),
    });
    let own = upstream.options.as_deref();
    allocated(size_of_val(&*upstream.servers))
        + servers.sum::<usize>()
        + own.map_or(0, |own| {
            allocated(size_of::<UpstreamOptions>()) + upstream_options(own)
        })
}

fn upstream_options(options: &UpstreamOptions) -> usize {
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| allocated(text.len()));
    let tls = options.tls.as_deref().map_or(0, |tls| {
        let of = tls.certificate_of.as_ref();
        let of = of.map_or(0, |name| allocated(name.as_str().len()));
        arc_bytes(size_of_val(tls)) + text(&tls.name) + text(&tls.ca) + of
    });
    let host = options
        .host
        .as_ref()
        .map_or(0, |host| allocated(host.len()));
    let check = options
        .check
        .as_ref()
        .map_or(0, |check| allocated(check.path.len()));
    let cookie = match &options.balance {
        super::Balance::Cookie(name) => allocated(name.len()),
        _ => 0,
    };
    tls + host + check + cookie
}

fn options(options: &RuleOptions) -> usize {
    let cache = options.cache.iter().map(|rule| {
        let media = match &rule.media {
            MediaRange::Any => 0,
            MediaRange::Type(text) | MediaRange::Exact(text) => allocated(text.len()),
        };
        media + allocated(rule.value.len())
    });
    let tried = options.try_files.iter().map(|candidate| match candidate {
        Candidate::Path { before, after } => allocated(before.len()) + allocated(after.len()),
        Candidate::Fixed(path) => allocated(path.len()),
        Candidate::Status(_) => 0,
    });
    let networks =
        |networks: &crate::limits::network::Networks| allocated(size_of_val(networks.as_slice()));
    options
        .add_prefix
        .as_ref()
        .map_or(0, |prefix| allocated(prefix.len()))
        + field_ops(&options.request_fields)
        + field_ops(&options.response_fields)
        + options
            .hsts
            .as_ref()
            .map_or(0, |value| allocated(value.len()))
        + allocated(size_of_val(&*options.cache))
        + cache.sum::<usize>()
        + allocated(size_of_val(&*options.try_files))
        + tried.sum::<usize>()
        + options
            .errors
            .as_ref()
            .map_or(0, |root| root.template.weight())
        + options.allow.as_ref().map_or(0, networks)
        + networks(&options.deny)
}

fn field_ops(ops: &FieldOps) -> usize {
    let pairs = ops.set.iter().chain(&ops.add);
    let pairs = pairs.map(|(name, value)| allocated(name.as_str().len()) + allocated(value.len()));
    let removed = ops.remove.iter().map(|name| allocated(name.as_str().len()));
    allocated(size_of_val(&*ops.remove))
        + allocated(size_of_val(&*ops.set))
        + allocated(size_of_val(&*ops.add))
        + pairs.sum::<usize>()
        + removed.sum::<usize>()
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
