//! Certificates from a real CA, by issuers that share a catalog.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_days;
mod cname_wait;
mod elsewhere;
mod first_access;
mod fixture;
mod issuing_ca;
mod left_out;
mod limits;
mod recovery;
mod renewal;
mod resumed;
mod same_name;
mod unequal;
