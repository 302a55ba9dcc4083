//! `sekisho cert export`

use std::io::Write;

use anyhow::{anyhow, bail};
use sekisho_certs::{KeyType, Sealer, StoredCredential};

use crate::cli::cert::{key_type, pem};
use crate::cli::named::Named;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A host, or a credential's id
    #[arg(value_name = "NAME")]
    name: Named,
    /// Which of a host's credentials
    #[arg(long = "type", value_name = "TYPE", value_parser = key_type)]
    key_type: Option<KeyType>,
    /// The private key too, in the clear, behind the chain
    #[arg(long)]
    with_key: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let found = args.name.credentials(sealer.catalog().as_ref()).await?;
    let credential = chosen(found, args.key_type)?;
    let mut output = Output::new();
    output.write_all(pem::chain(&credential).as_bytes())?;
    if args.with_key {
        for opened in sealer.open_credentials(vec![credential]).await? {
            output.write_all(pem::key(opened.key.secret())?.as_bytes())?;
        }
    }
    output.flush()?;
    Ok(Ended::Done)
}

/// Returns exactly one credential: two chains in one file would confuse programs, and
/// none is revoked by chance.
pub(super) fn chosen<K>(
    found: Vec<StoredCredential<K>>,
    wanted: Option<KeyType>,
) -> Result<StoredCredential<K>> {
    let ids: Vec<_> = found
        .iter()
        .map(|one| format!("{} ({})", one.id, one.key_type.as_str()))
        .collect();
    let mut fitting = found
        .into_iter()
        .filter(|one| wanted.is_none_or(|wanted| wanted == one.key_type));
    let first = fitting
        .next()
        .ok_or_else(|| anyhow!("there is none of that type, only {}", ids.join(", ")))?;
    if fitting.next().is_some() {
        bail!("there are several, choose with --type: {}", ids.join(", "));
    }
    Ok(first)
}

const EXAMPLES: &str = "\
Examples:
  sekisho cert export shop.example > shop.crt
  sekisho cert export shop.example --type rsa
  (umask 077; sekisho cert export shop.example --with-key > shop.pem)";
