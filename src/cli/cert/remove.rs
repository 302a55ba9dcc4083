//! `sekisho cert remove`

use anyhow::bail;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{CredentialId, HostPattern, HostRecord, KeyType, Sealer, Secret, StoreError};

use crate::cli::cert::key_type;
use crate::cli::edit::{Edit, edit};
use crate::cli::lineage::{self, Changed};
use crate::cli::named::Named;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::PAGE;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A host, or a credential's id
    #[arg(value_name = "NAME")]
    name: Named,
    /// Only the one of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = key_type)]
    key_type: Option<KeyType>,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    match &args.name {
        Named::Host(pattern) => from_host(sealer, pattern, args.key_type).await?,
        Named::Credential(id) => from_all_hosts(sealer, &args.name, *id, args.key_type).await?,
    }
    Ok(Ended::Done)
}

async fn from_host(sealer: &Sealer, pattern: &HostPattern, wanted: Option<KeyType>) -> Result<()> {
    edit(sealer, pattern, async |stored| {
        let Some(mut record) = stored else {
            bail!("there is no host {pattern}; 'sekisho host list' shows which there are");
        };
        let mut dropped = false;
        for key_type in KeyType::ALL {
            if wanted.is_none_or(|wanted| wanted == key_type) {
                dropped |= record.references.set(key_type, None).is_some();
            }
        }
        if !dropped {
            let of_type = wanted.map_or(String::new(), |wanted| format!("{} ", wanted.as_str()));
            bail!("{pattern} has no {of_type}certificate");
        }
        Ok(Edit::Put(record))
    })
    .await
}

/// Removes the references of all hosts to a credential, a page at a time. The
/// catalog deletes the credential with its last reference.
async fn from_all_hosts(
    sealer: &Sealer,
    name: &Named,
    id: CredentialId,
    wanted: Option<KeyType>,
) -> Result<()> {
    let catalog = sealer.catalog();
    let stored = name.credentials(catalog.as_ref()).await?;
    let key_type = stored[0].key_type;
    if wanted.is_some_and(|wanted| wanted != key_type) {
        bail!("{id} is of type {}", key_type.as_str());
    }
    let mut conflicts = 0;
    loop {
        let patterns = catalog.hosts_of(id, None, PAGE).await?;
        if patterns.is_empty() {
            return Ok(());
        }
        let records = catalog.hosts(&patterns).await?;
        let mut changed = Changed::default();
        let mut writes = without(records, key_type, id, &mut changed);
        let ended = changed.ended(catalog.as_ref()).await?;
        writes.extend(lineage::end(sealer, &ended).await?);
        match sealer.write(writes).await {
            Ok(_) => conflicts = 0,
            Err(StoreError::Conflict(_)) if conflicts < MAX_CONFLICTS => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn without(
    records: Vec<HostRecord>,
    key_type: KeyType,
    id: CredentialId,
    changed: &mut Changed,
) -> Vec<Write<Secret>> {
    let mut writes = Vec::with_capacity(records.len());
    for mut record in records {
        if record.references.of(key_type) == Some(id) {
            let before = record.references;
            record.references.set(key_type, None);
            changed.add(&record.pattern, Some(before), record.references);
            let expect = Precondition::Version(record.version);
            writes.push(Write::PutHost(record, expect));
        }
    }
    writes
}

/// Conflicts in a row; more mean that another program writes the same hosts
/// without pause.
const MAX_CONFLICTS: usize = 8;

const EXAMPLES: &str = "\
With a host: its references are dropped. With an id: those of all hosts. A
certificate that no host refers to any more is deleted with its key, and not
renewed. With [acme] first_access = \"hosts\" a host without a certificate gets
one at its next visit.

Examples:
  sekisho cert remove shop.example
  sekisho cert remove shop.example --type rsa
  sekisho cert remove cert:0123456789abcdef";
