//! What a catalog writes.

use crate::credential::SealedBytes;
use crate::store::{Document, Precondition, Reseal, Write};

/// One transaction of a catalog: operations whose secrets are sealed.
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
    /// Operations that hold while the check value is as `required` says.
    pub(super) fn new(
        required: Write<SealedBytes>,
        writes: impl IntoIterator<Item = Write<SealedBytes>>,
        reseals: Vec<Reseal>,
    ) -> Self {
        Self {
            writes: std::iter::once(required).chain(writes).collect(),
            reseals,
        }
    }

    /// Puts another check value in the place of that version.
    pub(super) fn of_check(check: Document<SealedBytes>, expect: Precondition) -> Self {
        Self {
            writes: vec![Write::PutDocument(check, expect)],
            reseals: Vec::new(),
        }
    }

    /// Operations that no sealer has made: for tests of catalogs.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn unchecked(writes: Vec<Write<SealedBytes>>) -> Self {
        Self {
            writes,
            reseals: Vec::new(),
        }
    }

    /// The same with secrets to seal again.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_reseals(self, reseals: Vec<Reseal>) -> Self {
        Self { reseals, ..self }
    }

    /// The operations in their order, and what is sealed again after them.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Write<SealedBytes>>, Vec<Reseal>) {
        (self.writes, self.reseals)
    }
}
