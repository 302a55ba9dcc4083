//! State that a server starts with while its catalog is out of reach.

use super::tables::Meta;
use sekisho_certs::SealedBytes;
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{CatalogId, Document, LogPosition};

/// The last known state of a catalog, as far as a start needs it. It is read
/// once, ends with the first answer of the catalog, and nothing is written by
/// it.
#[derive(Clone, Debug)]
pub struct StartState {
    /// Which catalog it was.
    pub catalog: CatalogId,
    /// Up to where its log was applied: the feed continues there.
    pub position: LogPosition,
    /// The check value of its master key.
    pub check: Document<SealedBytes>,
    /// Other documents that had not expired.
    pub documents: Vec<Document<SealedBytes>>,
}

impl StartState {
    pub(super) fn of(meta: &Meta, documents: Vec<Document<SealedBytes>>, now: i64) -> Option<Self> {
        let is_valid = |one: &Document<_>| one.expires.is_none_or(|expires| expires > now);
        let documents = documents.into_iter().filter(is_valid);
        let (checks, documents): (Vec<_>, _) = documents.partition(|one| one.id == CHECK);
        Some(Self {
            catalog: meta.catalog?,
            position: meta.position?,
            check: checks.into_iter().next()?,
            documents,
        })
    }
}
