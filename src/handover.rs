//! Hand-over: a new process of this server takes the place of this one, for a reload as for
//! an upgrade, and no connection notices.
//!
//! ```text
//!  old process                                new process
//!  ───────────                                ───────────
//!  run.rs     a signal, or a request
//!  hand_over.rs
//!  launch.rs  starts the program ───────────► take.rs    reads what it gets
//!  give.rs    sockets, links to older                    opens the store, takes the
//!             processes, ticket keys, ... ──►            sockets, answers requests
//!             waits          ◄─────── Ready ── run.rs
//!  hand_over.rs  lets go of what only
//!             one process may have ─ Yours ──► run.rs    begins with it
//!  leave.rs   accepts no more; serves what               elders.rs  hears from older
//!             it has, and ends ◄── End, signals ──────►  processes
//!  keeper.rs  the first process keeps its pid, if nobody can be told of another
//! ```
//!
//! Both speak over a socket pair, which is the new process's standard input (`channel.rs`,
//! `message.rs`). Until `Ready` the old process serves, and a new one that fails changes
//! nothing. Both then share the sockets: none is closed while connections wait in it.

mod channel;
mod elders;
mod give;
mod hand_over;
pub(crate) mod keeper;
mod launch;
mod leave;
mod message;
mod notify;
mod record;
mod run;
mod signals;
mod take;

pub(crate) use elders::Elders;
pub(crate) use give::{Estate, LetGo};
pub(crate) use launch::{Launcher, Program};
pub(crate) use message::{Kind, Older};
pub(crate) use notify::Watchdog;
pub(crate) use record::Record;
pub(crate) use run::{Asked, Ends, Handover, Left, Request};
pub(crate) use signals::Signals;
pub(crate) use take::{Predecessor, Taken};
