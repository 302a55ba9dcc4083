//! `sekisho acme account import`

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use sekisho_issuance::acme::ForeignKey;
use sekisho_stores::files::read_bounded;

use super::AtCas;
use crate::terminal::failure::{Ended, Result, Usage};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The account's key: certbot's private_key.json, a PEM file, or Traefik's acme.json
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The CA [default: the only one]
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
    /// The resolver of acme.json whose account is meant
    #[arg(long, value_name = "NAME")]
    resolver: Option<String>,
    /// Take the account from the tool that has it
    ///
    /// A key on P-256, as Caddy and lego have it, is taken as it is. An RSA key, as certbot has it,
    /// is replaced by one on P-256: the new one is in the store before the CA is asked, and this can
    /// be repeated after a kill.
    #[arg(long)]
    yes: bool,
    /// Put it in the place of the account that the store has
    #[arg(long)]
    replace: bool,
}

pub(super) async fn run(at: &AtCas, args: &Args) -> Result<Ended> {
    let ca = at.one(args.ca.as_deref())?;
    let file = args.file.display();
    let content = read_bounded(&args.file, LARGEST).with_context(|| file.to_string())?;
    if content.len() > LARGEST {
        bail!("{file}: it is over {} MiB", LARGEST >> 20);
    }
    let key = ForeignKey::read(&content, args.resolver.as_deref());
    let key = key.map_err(|why| anyhow!("{file}: {why}"))?;
    let must_change = key.p256().is_none();
    if must_change && !args.yes {
        return Err(Usage(format!("{TAKES}; confirm it with --yes")).into());
    }
    let account = at.accounts.import(ca, &key, args.replace).await?;
    let changed = if must_change { ", key changed" } else { "" };
    println!("imported {}{changed}", account.id());
    Ok(Ended::Done)
}

const TAKES: &str = "this gives the account a new key, which takes it from the tool that has it: \
                     that one can't order or renew any more";
/// Bytes of the largest `acme.json`: some ten thousand certificates.
const LARGEST: usize = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  sekisho acme account import /etc/letsencrypt/accounts/SERVER/directory/ID/private_key.json
  sekisho acme account import account.key --ca letsencrypt
  sekisho acme account import acme.json --resolver le --replace --yes";
