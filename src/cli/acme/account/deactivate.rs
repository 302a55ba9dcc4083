//! `sekisho acme account deactivate`

use super::AtCas;
use crate::terminal::failure::{Ended, Result, Usage};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The CA [default: the only one]
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
    /// Do it: this can't be undone
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(at: &AtCas, args: &Args) -> Result<Ended> {
    let ca = at.one(args.ca.as_deref())?;
    let name = ca.name();
    if !args.yes {
        let what = format!("this ends the account at {name} for ever; confirm it with --yes");
        return Err(Usage(what).into());
    }
    match at.accounts.deactivate(ca).await? {
        None => println!("{name}: the account is deactivated, and removed from the store"),
        Some(refused) => {
            println!("{name}: the account is removed from the store");
            eprintln!("note: {refused}; it was not deactivated there");
        }
    }
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
The CA takes no more orders from the account and drops those that are under way
(RFC 8555, section 7.3.6). Certificates stay valid. A server whose [acme] names
the CA makes another account with its next order: take the CA out of cas first, if
it is not to be asked any more.

An account that the CA does not take, because it does not know it or the key, is
removed from the store all the same.

Example:
  sekisho acme account deactivate --ca zerossl --yes";
