//! What commands say on the terminal, and how they fail.

pub(crate) mod configuration;
pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod progress;
mod table;
