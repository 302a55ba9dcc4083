//! Upstream servers of sites.

mod check;
mod choice;
mod chosen;
mod health;
mod limits;
mod resolve;
mod servers;

pub(crate) use servers::{Background, Servers};
