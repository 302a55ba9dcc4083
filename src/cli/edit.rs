//! Edits one record with optimistic concurrency.

use anyhow::bail;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{HostPattern, HostRecord, Sealer, StoreError};

use crate::cli::failure::Result;

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
/// conflict it reads again.
pub(crate) async fn edit(
    sealer: &Sealer,
    pattern: &HostPattern,
    mut decide: impl AsyncFnMut(Option<HostRecord>) -> Result<Edit>,
) -> Result<()> {
    let mut conflict = None;
    for _ in 0..MAX_ATTEMPTS {
        let stored = sealer
            .catalog()
            .hosts(std::slice::from_ref(pattern))
            .await?
            .pop();
        let expect = match &stored {
            Some(record) => Precondition::Version(record.version),
            None => Precondition::Absent,
        };
        let write = match decide(stored).await? {
            Edit::Keep => return Ok(()),
            Edit::Put(record) => Write::PutHost(record, expect),
            Edit::Remove => Write::RemoveHost(pattern.clone(), expect),
        };
        match sealer.write(vec![write]).await {
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
