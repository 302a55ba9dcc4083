//! `sekisho acme account rotate`

use super::AtCas;
use crate::terminal::failure::{Ended, Result};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The CA [default: the only one]
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
}

pub(super) async fn run(at: &AtCas, args: &Args) -> Result<Ended> {
    let ca = at.one(args.ca.as_deref())?;
    let account = at.accounts.rotate(ca).await?;
    let (ca, account) = (ca.name(), account.id());
    println!("{ca}: {account} has a new key, which is saved");
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
The CA takes only the new key from then on (RFC 8555, section 7.3.5); the store
has it at once. Servers go on: whose request is refused reads the account again.
Orders that are under way at that moment may fail once, and are tried again.

Killed between the CA's answer and the saving, or without an answer, the account
is lost: its key is known to nobody. 'sekisho acme account show' then says that
the CA refuses it, 'deactivate' removes it from the store, and the next order
makes another one. No certificate is lost by that.

Example:
  sekisho acme account rotate --ca letsencrypt";
