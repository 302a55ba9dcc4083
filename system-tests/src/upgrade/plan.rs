//! Hand-overs of a run, and the configuration that each brings.

use std::fmt;
use std::path::Path;

use super::generations;

/// How a hand-over is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    /// SIGHUP
    Hangup,
    /// `sekisho reload`
    Reload,
    /// SIGUSR2, with another file at the program's path
    User2,
    /// `sekisho upgrade`, with another file at the program's path
    Upgrade,
    /// `sekisho upgrade`, with a file at the program's path that is no server
    Broken,
}

/// What a hand-over changes, besides the generation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Redirect,
    Workers(u32),
    /// A second listening address, or none
    SecondAddress(bool),
    /// Memory for hosts, in MiB
    Memory(u32),
}

/// Configuration of a generation.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) generation: u32,
    pub(super) ports: [u16; 2],
    pub(super) second: bool,
    pub(super) drain_seconds: u32,
    workers: u32,
    memory: u32,
}

/// Ten reloads and three upgrades.
pub(super) const PLAN: [(How, Change); 13] = [
    (How::Hangup, Change::Redirect),
    (How::Reload, Change::Workers(3)),
    (How::User2, Change::Redirect),
    (How::Hangup, Change::Workers(1)),
    (How::Reload, Change::SecondAddress(true)),
    (How::Broken, Change::Redirect),
    (How::Hangup, Change::Workers(2)),
    (How::Reload, Change::SecondAddress(false)),
    (How::Hangup, Change::Memory(32)),
    (How::Upgrade, Change::Redirect),
    (How::Reload, Change::Memory(64)),
    (How::Hangup, Change::Redirect),
    (How::Reload, Change::Redirect),
];

impl Configuration {
    pub(super) fn new(ports: [u16; 2]) -> Self {
        Self {
            generation: 1,
            ports,
            second: false,
            drain_seconds: 30,
            workers: 2,
            memory: 64,
        }
    }

    /// Returns the next generation.
    pub(super) fn with(&self, change: Change) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        match change {
            Change::Redirect => {}
            Change::Workers(workers) => next.workers = workers,
            Change::SecondAddress(second) => next.second = second,
            Change::Memory(memory) => next.memory = memory,
        }
        next
    }

    pub(super) fn text(&self, pages: &Path) -> String {
        let [first, second] = self.ports;
        let second = match self.second {
            true => format!(", \"127.0.0.1:{second}\""),
            false => String::new(),
        };
        format!(
            "[listen]\nhttps = [\"127.0.0.1:{first}\"{second}]\nadmin = \"unix:admin.sock\"\n\
             [store]\nurl = \"sqlite:hosts.db\"\n\
             [cache]\nmemory = \"{}MiB\"\n\
             [site]\nredirect = \"https://{}/{{host}}\"\n\
             [sites]\nallow = [\"{}\", \"127.0.0.0/8\"]\n\
             [server]\nworkers = {}\ndrain_timeout = \"{}s\"\n",
            self.memory,
            generations::host(self.generation),
            pages.display(),
            self.workers,
            self.drain_seconds,
        )
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hangup => "SIGHUP",
            Self::Reload => "sekisho reload",
            Self::User2 => "SIGUSR2",
            Self::Upgrade => "sekisho upgrade",
            Self::Broken => "sekisho upgrade to a broken program",
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect => f.write_str("a redirect"),
            Self::Workers(workers) => write!(f, "{workers} workers"),
            Self::SecondAddress(true) => f.write_str("a second address"),
            Self::SecondAddress(false) => f.write_str("one address less"),
            Self::Memory(memory) => write!(f, "{memory} MiB of memory"),
        }
    }
}
