//! Transactions of a catalog.

use super::CHECK;
use crate::credential::SealedBytes;
use crate::store::{Document, Precondition, Reseal, Write};

/// Transaction of a catalog: operations whose secrets are sealed.
///
/// Only a [`Sealer`](super::Sealer) makes it, and puts the version of the
/// check value first that its master key was taken by. While the key is being
/// changed, a batch under the old key is a conflict.
#[derive(Clone, Debug)]
pub struct Batch {
    writes: Vec<Write<SealedBytes>>,
    reseals: Vec<Reseal>,
}

impl Batch {
    /// Makes a batch that conflicts unless the check value has that version.
    pub(super) fn new(
        check: u64,
        writes: impl IntoIterator<Item = Write<SealedBytes>>,
        reseals: Vec<Reseal>,
    ) -> Self {
        let required = Write::Require(CHECK, Precondition::Version(check));
        Self {
            writes: std::iter::once(required).chain(writes).collect(),
            reseals,
        }
    }

    /// Makes a batch that replaces the check value of that version.
    pub(super) fn of_check(check: Document<SealedBytes>, expect: Precondition) -> Self {
        Self {
            writes: vec![Write::PutDocument(check, expect)],
            reseals: Vec::new(),
        }
    }

    /// Makes a batch that no sealer has checked: for tests of catalogs.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn unchecked(writes: Vec<Write<SealedBytes>>) -> Self {
        Self {
            writes,
            reseals: Vec::new(),
        }
    }

    /// Adds secrets to seal again.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_reseals(self, reseals: Vec<Reseal>) -> Self {
        Self { reseals, ..self }
    }

    /// Returns the operations in their order, and what is sealed again after
    /// them.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Write<SealedBytes>>, Vec<Reseal>) {
        (self.writes, self.reseals)
    }
}
