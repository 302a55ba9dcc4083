//! `sekisho acme account show`

use sekisho_issuance::accounts::KIND;
use sekisho_issuance::acme::{Account, Ca, Error};
use serde::Serialize;

use super::AtCas;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only the account at this CA
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
    /// As a JSON array, one account per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(at: &AtCas, args: &Args) -> Result<Ended> {
    let mut shown = Vec::new();
    for ca in at.chosen(args.ca.as_deref())? {
        let account = at.accounts.stored(ca).await?;
        let checked = match &account {
            Some(account) => Some(account.check().await),
            None => None,
        };
        shown.push((ca, account, checked));
    }
    let views = shown
        .iter()
        .map(|(ca, account, checked)| View::new(ca, account.as_ref(), checked.as_ref()));
    let views: Vec<_> = views.collect();
    let mut listing = Listing::new(args.json);
    for view in &views {
        listing.push(|| view, || view.text())?;
    }
    listing.end()?;
    for (ca, account, _) in &shown {
        if account
            .as_ref()
            .is_some_and(|one| one.contact() != at.contact)
        {
            let name = ca.name();
            eprintln!(
                "note: [acme] has another contact; a server that starts tells {name} with its first order"
            );
        }
    }
    if args.ca.is_none() {
        name_others(at).await?;
    }
    let is_good = |view: &View<'_>| matches!(view.status, None | Some(Status::Valid));
    Ok(Ended::of(views.iter().all(is_good)))
}

/// Names the accounts at CAs that are not configured any more.
async fn name_others(at: &AtCas) -> Result<()> {
    let catalog = at.sealer.catalog();
    for document in catalog.list_documents(&KIND, None, PAGE).await? {
        let directory = &document.id.key;
        if !at.cas.iter().any(|ca| ca.directory() == directory) {
            eprintln!(
                "note: the store has an account at {directory}, too, which [acme] cas does not name"
            );
        }
    }
    Ok(())
}

/// JSON form of an account.
#[derive(Serialize)]
struct View<'a> {
    ca: &'a str,
    directory: &'a str,
    /// URL of the account; none if there is none.
    account: Option<&'a str>,
    contact: &'a [String],
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// State of an account at its CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// The CA takes its key.
    Valid,
    /// The CA does not know it, has ended it, or does not take its key.
    Refused,
    /// The CA could not be asked.
    Unknown,
}

impl<'a> View<'a> {
    fn new(
        ca: &'a Ca,
        account: Option<&'a Account>,
        checked: Option<&std::result::Result<(), Error>>,
    ) -> Self {
        Self {
            ca: ca.name(),
            directory: ca.directory(),
            account: account.map(Account::id),
            contact: account.map_or(&[], Account::contact),
            status: checked.map(|checked| match checked {
                Ok(()) => Status::Valid,
                Err(error) if error.doubts_account() => Status::Refused,
                Err(_) => Status::Unknown,
            }),
            error: checked.and_then(|checked| Some(checked.as_ref().err()?.fault.to_string())),
        }
    }

    /// Formats the account for people, in several lines.
    fn text(&self) -> String {
        let ca = format!("{}  {}", self.ca, self.directory);
        let (Some(account), Some(status)) = (self.account, self.status) else {
            return ca + "\n  account  none; the first order makes one";
        };
        let contact = match self.contact {
            [] => "none".to_owned(),
            contact => contact.join(", "),
        };
        let error = self.error.as_deref().unwrap_or_default();
        let status = match status {
            Status::Valid => "valid".to_owned(),
            Status::Refused => format!("REFUSED: {error}"),
            Status::Unknown => format!("unknown: {error}"),
        };
        format!("{ca}\n  account  {account}\n  contact  {contact}\n  status   {status}")
    }
}

const EXAMPLES: &str = "\
An account that its CA refuses, or a CA that can't be asked, is exit code 1. A
refused account orders nothing: 'sekisho acme account deactivate' removes it from
the store, and the next order makes another one.

Examples:
  sekisho acme account show
  sekisho acme account show --ca letsencrypt --json | jq -r '.[].account'";
