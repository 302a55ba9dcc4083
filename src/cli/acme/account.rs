//! `sekisho acme account`: the accounts at the CAs of `[acme]`.

mod deactivate;
mod import;
mod rotate;
mod show;

use std::path::Path;

use anyhow::anyhow;
use clap::Subcommand;
use sekisho_certs::{Clock, Sealer};
use sekisho_issuance::accounts::Accounts;
use sekisho_issuance::acme::Ca;

use crate::config::Config;
use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::wiring::open;

/// Commands on accounts.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Show the accounts, and ask the CAs whether they are valid
    Show(show::Args),
    /// Take over an account that another tool has
    ///
    /// The CA is asked for the account of the key first. The account keeps its contact until the
    /// next order, which tells the CA the configured one. Limits that the CA has raised belong to
    /// the account: write them into quotas of [acme.ca.NAME].
    Import(import::Args),
    /// Replace the private key of an account
    Rotate(rotate::Args),
    /// End an account at its CA for ever
    Deactivate(deactivate::Args),
}

pub(super) fn run(config: Option<&Path>, command: &Command) -> Result<Ended> {
    let config = configuration::load(config)?;
    open::runtime()?.block_on(async {
        let at = AtCas::open(&config).await?;
        match command {
            Command::Show(args) => show::run(&at, args).await,
            Command::Import(args) => import::run(&at, args).await,
            Command::Rotate(args) => rotate::run(&at, args).await,
            Command::Deactivate(args) => deactivate::run(&at, args).await,
        }
    })
}

/// The configured CAs, and the accounts of the store at them.
struct AtCas {
    sealer: Sealer,
    accounts: Accounts,
    cas: Vec<Ca>,
    contact: Vec<String>,
}

impl AtCas {
    async fn open(config: &Config) -> Result<Self> {
        let settings = config.issuance()?.ok_or_else(|| {
            let file = config.file.display();
            anyhow!("{file}: [acme] is missing; it names the CAs, as in cas = [\"letsencrypt\"]")
        })?;
        let cas: std::result::Result<_, _> =
            settings.cas.iter().map(|one| Ca::new(&one.ca)).collect();
        let sealer = open::sealed(config).await?;
        let contact = settings.contact;
        Ok(Self {
            accounts: Accounts::new(
                sealer.clone(),
                contact.clone(),
                settings.agree,
                Clock::System,
            ),
            sealer,
            cas: cas.map_err(|error| config.located(error.into()))?,
            contact,
        })
    }

    /// Returns the CA of this name, or all.
    fn chosen(&self, name: Option<&str>) -> Result<&[Ca]> {
        let Some(name) = name else {
            return Ok(&self.cas);
        };
        let index = self.cas.iter().position(|ca| ca.name() == name);
        let index = index.ok_or_else(|| {
            anyhow!(
                "[acme] cas does not name the CA {name:?}; it names {}",
                self.names()
            )
        })?;
        Ok(&self.cas[index..=index])
    }

    /// Returns the CA of this name, or the only one.
    fn one(&self, name: Option<&str>) -> Result<&Ca> {
        match self.chosen(name)? {
            [ca] => Ok(ca),
            _ => {
                let which = format!(
                    "there are several CAs; say which with --ca: {}",
                    self.names()
                );
                Err(Usage(which).into())
            }
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.cas.iter().map(Ca::name).collect();
        names.join(", ")
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho acme account show
  sekisho acme account import private_key.json
  sekisho acme account rotate --ca letsencrypt
  sekisho acme account deactivate --ca zerossl --yes";
