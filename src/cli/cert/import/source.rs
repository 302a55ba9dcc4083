//! Pairs of a source: where their halves lie, and the hosts that the source names for them.

use std::fmt;
use std::path::{Path, PathBuf};

use sekisho_certs::HostPattern;
use zeroize::Zeroizing;

/// Chain and key that belong together.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) names: Names,
    pub(super) chain: Half,
    pub(super) key: Key,
    /// Certificates of issuers, which count if the chain's half holds the leaf alone.
    pub(super) issuers: Option<Half>,
}

/// Half of a pair, which is read by whoever checks the pair.
pub(super) enum Half {
    File(PathBuf),
    /// Bytes of an archive, a document or a database, with the place that they are from.
    Bytes(PathBuf, Zeroizing<Vec<u8>>),
}

/// Place of a pair's key.
#[derive(Debug)]
pub(super) enum Key {
    /// Half of the chain, which holds both.
    InChain,
    Apart(Half),
    /// Half of the chain; if that holds no key, this half.
    InChainOr(Half),
}

/// Hosts of a pair, by its source. A *named* host prefers this pair to others that cover it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Path, or another place, such as a file of an archive.
    pub(super) place: PathBuf,
    /// Group of the refusal, for the summary.
    pub(super) group: &'static str,
    pub(super) reason: String,
}

impl Pair {
    /// Makes a pair of a chain and its own key.
    pub(super) fn new(names: Names, chain: Half, key: Half) -> Self {
        Self {
            names,
            chain,
            key: Key::Apart(key),
            issuers: None,
        }
    }
}

impl Half {
    /// Returns the path of a file, or the place that bytes are from.
    pub(super) fn place(&self) -> &Path {
        let (Self::File(place) | Self::Bytes(place, _)) = self;
        place
    }
}

/// Shows the place alone: the bytes may be a key.
impl fmt::Debug for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place().fmt(f)
    }
}

impl Names {
    /// Leaves only the named hosts; none if there are none.
    pub(super) fn only_named(self) -> Option<Self> {
        match self {
            Self::Leaf => Some(Self::Leaf),
            Self::OfLeaf(named) | Self::WithLeaf(named) | Self::Exactly(named) => {
                (!named.is_empty()).then_some(Self::Exactly(named))
            }
        }
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
        }
    }

    /// Refuses one half, since the other is missing.
    pub(super) fn alone(place: &Path, other: &str) -> Self {
        Self::new(place, HALF_MISSING, format!("{other} is missing"))
    }
}

/// Group of pairs that lack a half.
pub(super) const HALF_MISSING: &str = "half of the pair is missing";
