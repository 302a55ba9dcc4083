//! Puts the parts together that the configuration names: for `serve`, and for commands
//! that open the store.

#[cfg_attr(not(feature = "hook"), path = "wiring/hook/without.rs")]
pub(crate) mod hook;
pub(crate) mod log;
pub(crate) mod open;
pub(crate) mod owner;
pub(crate) mod serving;
