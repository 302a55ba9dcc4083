//! Lineages: certificates over all their renewals (certbot's word), with what a
//! renewal needs and the claim of whoever works on one.

use std::fmt;

use crate::credential::{CredentialId, KeyType};
use crate::host::{HostName, HostPattern};
use crate::record::Tenant;

/// Certificate over all its renewals. `S` is the form of its secret: [`Secret`]
/// for callers, [`SealedBytes`] in a catalog.
///
/// [`Secret`]: crate::credential::Secret
/// [`SealedBytes`]: crate::credential::SealedBytes
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage<S> {
    /// Key of the row.
    pub name: LineageName,
    /// Owner of the names.
    pub tenant: Tenant,
    /// Names that the certificate covers: in order, each once, at least one.
    pub names: Vec<HostPattern>,
    /// Where it differs from the configuration.
    pub wishes: Wishes,
    /// The present credential, once there was one. It is gone with the last
    /// host that refers to it.
    pub credential: Option<CredentialId>,
    /// URL of the directory of the CA that issued the present credential; none of an
    /// imported one, or where an older version has ordered it.
    pub issued_by: Option<String>,
    /// Not worked on before this time, seconds since the Unix epoch; none if
    /// nothing is to be done.
    pub due: Option<i64>,
    /// Order among the lineages that are due, smallest first. Writers space the
    /// turns of a tenant: its many new names then don't stand before another's
    /// few.
    pub turn: i64,
    /// Failures in a row.
    pub attempts: u32,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// The order under way, as issuance encodes it.
    pub order: Option<S>,
    /// Claim that holds at the time of the read. In a write only its presence
    /// counts: the claim stays, or it is released.
    pub claim: Option<Claim>,
}

impl<S> Lineage<S> {
    /// Tells whether the lineage only keeps why its name was refused: it has never been
    /// admitted to an order.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.credential.is_none() && self.due.is_none() && self.last_error.is_some()
    }

    /// Makes a lineage for these names that is not due. It is named after the
    /// first of them; none without names.
    #[must_use]
    pub fn new(tenant: Tenant, names: impl IntoIterator<Item = HostPattern>) -> Option<Self> {
        let mut names: Vec<_> = names.into_iter().collect();
        let name = LineageName::from(names.first()?);
        names.sort_unstable();
        names.dedup();
        Some(Self {
            name,
            tenant,
            names,
            wishes: Wishes::default(),
            credential: None,
            issued_by: None,
            due: None,
            turn: 0,
            attempts: 0,
            last_error: None,
            order: None,
            claim: None,
        })
    }

    /// Takes the order out. Returns the rest, and the order.
    #[must_use]
    pub fn split_order<T>(self) -> (Lineage<T>, Option<S>) {
        let lineage = Lineage {
            name: self.name,
            tenant: self.tenant,
            names: self.names,
            wishes: self.wishes,
            credential: self.credential,
            issued_by: self.issued_by,
            due: self.due,
            turn: self.turn,
            attempts: self.attempts,
            last_error: self.last_error,
            order: None,
            claim: self.claim,
        };
        (lineage, self.order)
    }
}

/// Name of a lineage: its first name when it was made, as certbot names
/// certificates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineageName(Box<str>);

impl LineageName {
    /// Takes 1 to 253 bytes of text without spaces and control characters.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_bad = |c: char| c.is_control() || c.is_whitespace();
        match text.len() {
            1..=253 if !text.contains(is_bad) => Ok(Self(text.into())),
            _ => Err(format!(
                "{text:?} is no lineage's name: 1 to 253 bytes without spaces"
            )),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&HostPattern> for LineageName {
    fn from(pattern: &HostPattern) -> Self {
        Self(pattern.as_str().into())
    }
}

impl fmt::Display for LineageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a lineage differs from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Name of the CA.
    pub ca: Option<String>,
    /// Name of the CA's profile.
    pub profile: Option<String>,
    /// Type of the key.
    pub key_type: Option<KeyType>,
    /// Name of the solver.
    pub solver: Option<String>,
}

/// Failure of the last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Time of the failure, seconds since the Unix epoch.
    pub at: i64,
    /// Reason in words.
    pub text: String,
}

/// Right to work on a lineage alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Process that has it.
    pub holder: String,
    /// End, milliseconds since the Unix epoch by the store's clock.
    pub until_ms: i64,
    /// Fencing token: larger than that of every earlier claim.
    pub epoch: u64,
}

/// Lineages that a call claims.
#[derive(Clone, Debug)]
pub enum ToClaim {
    /// At most `limit` that are due, in the order of their turns, of those for which
    /// `able` suffices, and of those that nobody has taken for [`UNTAKEN`].
    Due {
        /// Most of them.
        limit: usize,
        /// What their holder can do.
        able: Able,
    },
    /// All of these names that exist, due or not.
    Named(Vec<LineageName>),
}

/// What one server's configuration has of all that lineages need. Servers of one
/// catalog may differ. It suffices for a lineage if it has the CA that the lineage wishes
/// for, and a challenge that proves all of its names. A wildcard is proved only in a zone, or
/// by a server that can prove any name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Able {
    /// Names of its CAs, which lineages may wish for.
    pub cas: Vec<String>,
    /// True if it has a challenge that proves single names without DNS.
    pub without_dns: bool,
    /// Zones whose records it can write: these names, and all below them.
    pub zones: Vec<HostName>,
    /// True if it can prove any name by a zone that it serves itself.
    pub everywhere: bool,
}

/// Seconds past its due date after which any server takes a lineage, one that can't
/// get its certificate too, which then says what is missing.
pub const UNTAKEN: i64 = 600;

/// Most lineages that a claim of due ones takes into account by their due dates, and
/// again by their turns: its time stays bounded when millions are due.
pub const MAX_CANDIDATES: usize = 1000;

/// Most lineages that a claim passes over in the order of their turns, since they are
/// not due or another has them: some 2 ms in an index.
pub const MAX_PASSED_OVER: usize = 10 * MAX_CANDIDATES;

/// Lineages that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All.
    All,
    /// Lineages whose last attempt failed.
    Failing,
    /// Lineages that have no certificate yet.
    Without,
}

/// Precondition of a write of a lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The write always happens, also to what another has claimed.
    Any,
    /// The lineage must not exist.
    Absent,
    /// The claim of this epoch must still hold.
    Epoch(u64),
}
