//! Permits and rates by key: no client network, tenant or server takes what others need.
//!
//! [`Gate`] bounds what happens at once, [`Rate`] how often something happens. A key names
//! whom a bound is shared with, such as a client prefix.

mod gate;
mod rate;

pub use gate::{Denied, Gate, Permit, Sharing};
pub use rate::Rate;
