//! A CA that speaks ACME (RFC 8555), over instant-acme and one HTTPS client.
//!
//! [`Ca`] gives an [`Account`], which gives an [`Order`], which gives a
//! [`sekisho_certs::credential::Credential`]. Nothing here is kept on disk: the
//! caller saves the account's bytes, the order's URL and the certificate's key,
//! and any process goes on from there.

mod account;
mod authorization;
mod ca;
mod chain;
mod directory;
mod error;
mod exchange;
mod key;
mod nonces;
mod order;
mod problem;
mod renewal_info;
mod retry_after;

pub use account::{Account, ExternalAccount, ForeignKey, NewAccount};
pub use authorization::{Authorization, Challenge, ChallengeType};
pub use ca::{Ca, CaSettings, builtin_names, directory_of};
pub use directory::Meta;
pub use error::{Blame, Error, Fault, Retry};
pub use instant_acme::{AuthorizationStatus, OrderStatus, RevocationReason};
pub use key::{CertificateKey, KeyKind};
pub use order::{NewOrder, Order, Wanted};
pub use problem::Problem;
pub use renewal_info::RenewalInfo;
