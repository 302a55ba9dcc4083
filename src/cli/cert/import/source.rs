//! Pairs of a source: where their halves lie, and the hosts that the source names for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sekisho_certs::HostPattern;
use zeroize::Zeroizing;

/// Chain and key that belong together.
pub(super) struct Pair {
    pub(super) names: Names,
    pub(super) chain: Half,
    /// Half of the key; none if the chain's half holds both.
    pub(super) key: Option<Half>,
    /// Name of the source, which its records keep.
    pub(super) source_name: Option<Arc<str>>,
}

/// Half of a pair, which is read by whoever checks the pair.
pub(super) enum Half {
    File(PathBuf),
    /// File beside a bundle, for a key that the bundle lacks.
    Beside(PathBuf),
    /// Bytes of an archive, a document or a database, with the place that they are from.
    Bytes(PathBuf, Zeroizing<Vec<u8>>),
}

/// Hosts of a pair, by its source. A *named* host prefers this pair to others that cover it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Names {
    /// All DNS names of the leaf. All are named.
    Leaf,
    /// All DNS names of the leaf. Those among the listed hosts are named.
    OfLeaf(Vec<HostPattern>),
    /// All DNS names of the leaf, and these hosts, which it must cover and which are named.
    WithLeaf(Vec<HostPattern>),
    /// Exactly these hosts, which the leaf must cover. All are named.
    Exactly(Vec<HostPattern>),
}

/// Stream of pairs.
pub(super) type Pairs = Box<dyn Iterator<Item = Result<Pair, Refusal>> + Send>;

/// Refusal of a pair, a file or a folder, with its reason.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Path, or another place, such as a file of an archive.
    pub(super) place: PathBuf,
    /// Group of the refusal, for the summary.
    pub(super) group: &'static str,
    pub(super) reason: String,
    /// Hosts of the pair; none if they are unknown. `--prune` keeps these hosts, and removes
    /// nothing after a refusal without hosts. It removes the hosts of what a layout passes over.
    pub(super) hosts: Vec<HostPattern>,
}

impl Pair {
    pub(super) fn new(names: Names, chain: Half, key: Option<Half>) -> Self {
        Self {
            names,
            chain,
            key,
            source_name: None,
        }
    }

    /// Notes the source. With `named_only`, leaves only the hosts that the source names.
    pub(super) fn of(mut self, from: Option<Arc<str>>, named_only: bool) -> Result<Self, Refusal> {
        self.source_name = from;
        if named_only && let Names::OfLeaf(named) | Names::WithLeaf(named) = self.names {
            if named.is_empty() {
                let reason = "the source names no host for it";
                return Err(Refusal::new(self.chain.place(), "no host is named", reason));
            }
            self.names = Names::Exactly(named);
        }
        Ok(self)
    }
}

impl Half {
    /// Returns the path of a file, or the place that bytes are from.
    pub(super) fn place(&self) -> &Path {
        let (Self::File(place) | Self::Beside(place) | Self::Bytes(place, _)) = self;
        place
    }
}

impl Refusal {
    pub(crate) fn new(
        place: impl Into<PathBuf>,
        group: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            place: place.into(),
            group,
            reason: reason.into(),
            hosts: Vec::new(),
        }
    }

    /// Refuses one half, since the other is missing.
    pub(super) fn alone(place: impl Into<PathBuf>, other: &Path) -> Self {
        let other = other.file_name().unwrap_or(other.as_os_str());
        let reason = format!("{} is missing", other.to_string_lossy());
        Self::new(place, HALF_MISSING, reason)
    }
}

/// Group of pairs that lack a half.
pub(super) const HALF_MISSING: &str = "half of the pair is missing";
