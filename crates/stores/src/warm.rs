//! Copies on the local disk of what a store elsewhere said, so that a server
//! that restarts while the store is down serves the hosts that it had.
//!
//! **When they answer.** The store is always asked first. Only if its call
//! failed in a way that heals by itself (out of reach, too slow, overloaded)
//! is the copy looked for. A name without a copy stays failed: a failure never
//! becomes an absence, and absences are not kept. A copy was the store's own
//! answer and is as old as the last contact; the lookup treats it like any
//! other answer, so the first contact with the store, where the change feed
//! starts over, has everything read again.
//!
//! **Which copy answers.** The one of the exact name. Else the one of the
//! wildcard above, if nothing stood below it (`shadowed` was false), or if the
//! store had answered this very name with it: for that, names below a shadowed
//! wildcard are noted. A wildcard never answers a name that may have, or may
//! have had, a record of its own.
//!
//! **How they are written.** By a thread of their own, some milliseconds
//! later, many in one transaction. A full queue drops what is to be kept;
//! nothing of it is in a handshake's way. What lies there already in the same
//! version costs a look at a table in memory.
//!
//! **How they are dropped.** With a catalog, each page of the change log
//! passes through [`Warm`]: copies of what changed are dropped before the page
//! is handed on, or queued to be if the disk is slow; dropping is synced to
//! the disk. The file knows up to which number of which log that was done.
//! The first contact after a start goes on from there; another log or a gap,
//! and the first contact of all, drop everything, and since the lookup then
//! reads everything again too, each host has a copy again with its next
//! request. A copy that a change overtook while it was read or waited is not
//! written, by the same rule as in the lookup. With a plain store
//! ([`WarmPlain`]), which tells of no changes, the store's next answer for the
//! name replaces or drops the copy.
//!
//! **What lies on the disk.** With a catalog, private keys as they are sealed
//! in it, since [`Warm`] stands beneath what opens secrets, and the
//! documents that a start needs (the check value, ticket keys), sealed too.
//! A plain store's keys are sealed by [`WarmPlain`]. Copies belong to one
//! store: a file that was written beside another is started anew.
//!
//! **Bounds.** File and write-ahead log together stay within a size; the
//! copies that were written the longest ago make room. Trouble with the disk
//! is never the server's: a file that is damaged or of another version is
//! replaced, one that is not ours, is locked by another process or can't be
//! written is passed over. Copies that could not be dropped are never used
//! again: the file is removed.

mod catalog;
mod copies;
mod counts;
mod file;
mod keep;
mod plain;
mod queue;
mod seen;
mod tables;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use catalog::Warm;
pub use copies::Copies;
pub use counts::WarmStats;
pub use plain::WarmPlain;

use sekisho_certs::clock::Clock;

/// Where copies are kept, and of what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file. Beside it lie its log (`-wal`) and a lock (`.lock`).
    pub path: PathBuf,
    /// Bytes that file and log may have together, 4 MiB at least.
    pub size: u64,
    /// Names the store, without passwords: copies of another are not used.
    pub store: String,
    /// The kinds of documents that a start needs, beside the check value.
    pub documents: Vec<&'static str>,
    /// Tells whether documents are over.
    pub clock: Clock,
}
