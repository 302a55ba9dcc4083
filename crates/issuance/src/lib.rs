//! Issuance: certificates from CAs that speak ACME (RFC 8555).
#![forbid(unsafe_code)]

pub mod accounts;
pub mod acme;
pub mod admission;
pub mod authorities;
pub mod holder;
pub mod issuer;
pub mod ledger;
mod metrics;
pub mod names;
pub mod quota;
pub mod schedule;
mod setting_error;
pub mod settings;
pub mod solver;
