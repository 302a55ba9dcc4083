//! Edits one record with optimistic concurrency.

use anyhow::bail;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{HostPattern, HostRecord, Sealer, StoreError};

use crate::cli::lineage::{self, Changed};
use crate::terminal::failure::Result;

/// Edit of a record.
pub(crate) enum Edit {
    /// The record stays as it is.
    Keep,
    /// The new record is stored.
    Put(HostRecord),
    /// The record is removed.
    Remove,
}

/// Reads a record, decides, and writes if the version is unchanged. After a
/// conflict it reads again. Lineages whose certificates lose their last host end.
pub(crate) async fn edit(
    sealer: &Sealer,
    pattern: &HostPattern,
    mut decide: impl AsyncFnMut(Option<HostRecord>) -> Result<Edit>,
) -> Result<()> {
    let mut conflict = None;
    for _ in 0..MAX_ATTEMPTS {
        let stored = sealer.catalog().hosts(std::slice::from_ref(pattern));
        let stored = stored.await?.pop();
        let before = stored.as_ref().map(|record| record.references);
        let expect = match &stored {
            Some(record) => Precondition::Version(record.version),
            None => Precondition::Absent,
        };
        let mut changed = Changed::default();
        let write = match decide(stored).await? {
            Edit::Keep => return Ok(()),
            Edit::Put(record) => {
                changed.add(pattern, before, record.references);
                Write::PutHost(record, expect)
            }
            Edit::Remove => {
                changed.remove(pattern, before);
                Write::RemoveHost(pattern.clone(), expect)
            }
        };
        let ended = changed.ended(sealer.catalog().as_ref()).await?;
        let mut writes = lineage::end(sealer, &ended).await?;
        writes.insert(0, write);
        match sealer.write(writes).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict(what)) => conflict = Some(what),
            Err(error) => return Err(error.into()),
        }
    }
    let conflict = conflict.as_deref().unwrap_or_default();
    bail!("{pattern} kept changing while it was edited ({conflict}); try again")
}

/// Attempts; more conflicts mean that another program writes the record without
/// pause.
const MAX_ATTEMPTS: usize = 8;
