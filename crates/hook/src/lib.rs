//! Handshake hook: operator's code, in Luau, that chooses what a handshake gets.
//!
//! The embedder gives a script with [`Settings`] and what the script may reach
//! ([`Imports`]). The crate knows no server, no store and no client library.

#![forbid(unsafe_code)]

mod cache;
mod choice;
mod compile;
mod error;
mod failure;
mod files;
mod flight;
mod hello;
mod hook;
mod imports;
mod log;
mod meter;
mod metrics;
mod region;
mod report;
mod run;
mod settings;
mod shared;
mod token;
mod worker_time;

pub use choice::{Answer, Choice, Made, Source};
pub use error::Error;
pub use hello::{Hello, Lists, Offers};
pub use hook::Hook;
pub use imports::{
    Admission, CallError, Found, HttpAnswer, HttpRequest, Imports, Owner, Pair, RedisCommand,
    RedisReply, SqlRow, SqlValue, Unlimited,
};
pub use report::{Called, RegionUse, Report};
pub use settings::{OnError, Settings};
