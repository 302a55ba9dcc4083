//! Content that the hosts of a case answer with.

use super::Hosts;

/// Source of the answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Files of the configuration's one root; each host has its own certificate.
    Files,
    /// Files of a root in each host's record; all hosts share one certificate.
    Roots,
    /// An upstream in each host's record, of this many; all hosts share one
    /// certificate. nginx has one for each of its hosts.
    Upstreams(usize),
    /// Hosts whose records name one upstream. Each host has a tenant of its own; all
    /// hosts share one certificate. nginx has an `upstream` block for each of its hosts.
    Tenants,
    /// A script in each host's record, which php-fpm runs; whether connections to it are
    /// kept. All hosts share one certificate.
    Scripts { keep: bool },
    /// Files of a root in each host's record, behind a password of which the record has the
    /// hash. All hosts share one certificate.
    Password,
    /// A text below a root in each host's record, which clients get in gzip. All hosts share
    /// one certificate.
    Texts(Texts),
    /// Files of a root in each host's record, and a CGI program below a path; the number of
    /// hosts. Those of sekisho share one certificate.
    Programs(Hosts),
}

impl Content {
    pub(super) fn is_proxied(self) -> bool {
        match self {
            Self::Files
            | Self::Roots
            | Self::Scripts { .. }
            | Self::Password
            | Self::Texts(Texts::Precompressed | Texts::Compressed)
            | Self::Programs(_) => false,
            Self::Upstreams(_) | Self::Tenants | Self::Texts(Texts::Proxied) => true,
        }
    }
}

/// Text that clients get in gzip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Texts {
    /// 100 KB, a copy of which lies beside it.
    Precompressed,
    /// 20 KB, which servers compress.
    Compressed,
    /// 20 KB of an upstream, which servers compress.
    Proxied,
}
