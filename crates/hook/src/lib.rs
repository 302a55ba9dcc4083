//! Handshake hook: operator's code, in Luau, that chooses what a handshake gets.
//!
//! The embedder gives a script with [`Settings`] and what the script may reach
//! ([`Imports`]). The crate knows no server, no store and no client library.
//!
//! # The way of a script's run
//!
//! With `[hook]`, a script is asked before the lookup. Each worker has a Luau state of its
//! own. A run is a coroutine that the connection's task polls.
//!
//! ```text
//!  crates/hook/src
//!  ───────────────
//!  compile.rs     bytecode, once
//!    ▼
//!  run/state.rs   this worker's state, made with its first run, made anew once the script
//!    │              itself fills it; run/state/waiting.rs has the runs that wait and what each
//!    │              holds, and breaks off those of the network that holds most
//!  run.rs         what a run has chosen so far; token.rs is what its store calls may
//!    │              cost the client's prefix
//!    ▼
//!  run/call.rs    the coroutine: meter.rs cuts it by CPU time, worker_time.rs makes runs of
//!    │              a busy worker take turns, flight.rs bounds those that wait, one deadline ends it
//!    └─ run/api.rs  what the script calls, one file per object below run/api/
//!         ├─ run/api/waiting.rs  functions that may wait: they answer at once, or leave a
//!         │                    future that call.rs polls while the coroutine has yielded
//!         ├─ imports.rs   what the binary gives: the lookup, clients, a certificate of PEM
//!         ├─ files.rs     PEM below `[hook] folders`
//!         └─ run/load.rs  `tls:cached`: region.rs has what was made, by key; the function
//!                           runs in a task, once for all who wait (singleflight)
//!    ▼
//!  choice.rs      what the handshake gets, and until when; where the run failed, what
//!                   `on_error` says
//! ```
//!
//! A key of the region is never looked up as a host, and no host as a key.

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
mod meter;
mod metrics;
mod region;
mod report;
mod run;
mod settings;
mod shared;
mod token;
mod worker_time;

pub use choice::{Answer, Charge, Choice, Source};
pub use error::Error;
pub use hello::Hello;
pub use hook::Hook;
pub use imports::{
    CallError, Found, HttpAnswer, HttpRequest, Imports, Owner, Pair, RedisCommand, RedisReply,
    SqlRow, SqlValue,
};
pub use report::{Called, RegionUse, Report};
pub use settings::{OnError, Settings};
