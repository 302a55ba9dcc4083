//! Stub resolver: asks recursive name servers (RFC 1035), and follows CNAMEs. And answers of
//! an authoritative server, [`authority`].
//!
//! Nothing is cached, and DNSSEC is not validated: the name servers do both.
#![forbid(unsafe_code)]

mod addresses;
pub mod authority;
mod exchange;
mod hosts;
mod resolver;

pub use addresses::{Addresses, HALF_TTL, OTHER_KIND};
pub use hosts::Hosts;
pub use resolver::{PORT, ResolveError, Resolver, TRY, question, send};
