//! Report of one run, for the command that tries a script.

use std::time::Duration;

/// Steps of a run, and their costs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Lines of `log`, safe to print.
    pub log: Vec<String>,
    /// Calls of clients in their order, those of `tls:cached` functions too.
    pub calls: Vec<Called>,
    /// Uses of the region in their order.
    pub region: Vec<(String, RegionUse)>,
    /// Time from the begin of the run to its end.
    pub took: Duration,
    /// CPU time of the script itself, without those of `tls:cached` functions.
    pub cpu: Duration,
    /// Bytes of memory of the Luau state after the run.
    pub memory: usize,
    /// Why the run failed; none if it did not.
    pub error: Option<String>,
}

/// Call of a client.
#[derive(Clone, Debug)]
pub struct Called {
    /// Function and what it was called with, safe to print.
    pub what: String,
    /// Time until its answer.
    pub took: Duration,
    /// Answer in few words, such as `absent` or `1,204 bytes`.
    pub answer: String,
}

/// How the region answered a `tls:cached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionUse {
    /// The key was there.
    Hit,
    /// The function ran and chose something.
    Loaded,
    /// The function ran and chose nothing, now or before.
    Absent,
    /// The function failed; what was there before is served.
    Stale,
    /// The function failed, now or before, and nothing was there before.
    Failed,
}

impl RegionUse {
    /// All of them, in the order of their declaration.
    pub(crate) const ALL: [Self; 5] = [
        Self::Hit,
        Self::Loaded,
        Self::Absent,
        Self::Stale,
        Self::Failed,
    ];

    /// Returns the word for metrics and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Loaded => "loaded",
            Self::Absent => "absent",
            Self::Stale => "stale",
            Self::Failed => "failed",
        }
    }
}
