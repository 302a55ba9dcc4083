//! Hand-over: a new process of this server takes the place of this one, for a reload as for
//! an upgrade, and no connection notices.
//!
//! ```text
//!  old process                                new process
//!  ───────────                                ───────────
//!  run.rs        a signal, or a request
//!  hand_over.rs
//!  launch.rs     starts the program ────────► take.rs    greets
//!  give.rs       gives, in this order:
//!                 listening sockets, the
//!                 admin socket, the disk
//!                 cache's lock, links to
//!                 older processes, ticket
//!                 keys, hot names, lines of
//!                 the configuration, and
//!                 what is known of the
//!                 hand-overs before ────────► take.rs    then opens the store, and
//!                                             run.rs     accepts (record.rs has the last)
//!                waits             ◄─ Ready ─ run.rs
//!  hand_over.rs  lets go of what only one
//!                process may have; accepts
//!                no more ─────────── Yours ─► run.rs    begins with what only one may do
//!  leave.rs      serves what it has, ends ◄─► older.rs  hears from older processes
//!  keeper.rs     the first process keeps its pid, if nobody can be told of another
//! ```
//!
//! From the first poll of the new process's server until `Yours` both accept. What is given
//! stands in `message.rs`; `Estate` (`give.rs`) has it before, `Taken` (`take.rs`) behind.
//!
//! Both speak over a socket pair, which is the new process's standard input (`channel.rs`,
//! `message.rs`). Until `Ready` the old process serves, and a new one that fails changes
//! nothing. Both then share the sockets: none is closed while connections wait in it.

mod channel;
mod give;
mod hand_over;
pub(crate) mod keeper;
mod launch;
mod leave;
mod message;
mod notify;
mod older;
mod record;
mod run;
mod signals;
mod take;

pub(crate) use give::Estate;
pub(crate) use launch::{Launcher, Program};
pub(crate) use message::{Control, ProcessState};
pub(crate) use notify::Watchdog;
pub(crate) use older::OlderProcesses;
pub(crate) use record::Record;
pub(crate) use run::{Ends, Handover, Outcome, Request};
pub(crate) use signals::Signals;
pub(crate) use take::{Predecessor, Taken, ZoneSocket};
