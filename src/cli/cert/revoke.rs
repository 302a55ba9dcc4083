//! `sekisho cert revoke`

use clap::ValueEnum;
use sekisho_certs::KeyType;
use sekisho_issuance::acme::RevocationReason;

use crate::cli::cert::{export, key_type, renew};
use crate::cli::issuance::Issuance;
use crate::cli::named::Named;
use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A host, or a credential's id
    #[arg(value_name = "NAME")]
    name: Named,
    /// Which of a host's certificates
    #[arg(long = "type", value_name = "TYPE", value_parser = key_type)]
    key_type: Option<KeyType>,
    /// What the CA publishes as the reason
    #[arg(long, value_enum, value_name = "R")]
    reason: Option<Reason>,
    /// Order another one at once, with a new key
    #[arg(long)]
    reissue: bool,
}

/// Reasons that a subscriber may give (Baseline Requirements, section 7.2.2).
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reason {
    /// Others may have the private key
    KeyCompromise,
    /// A new certificate takes its place
    Superseded,
    /// The names are not used any more
    CessationOfOperation,
    /// What it says of the organization is wrong
    AffiliationChanged,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let issuance = Issuance::of(config)?;
    let sealer = open::sealed(config).await?;
    let found = args.name.credentials(sealer.catalog().as_ref()).await?;
    let id = export::chosen(found, args.key_type)?.id;
    let lineages = renew::of(&sealer, &Named::Credential(id)).await?;
    let names: Vec<_> = lineages.into_iter().map(|one| one.name).collect();
    let ordering = issuance.ordering(&sealer)?;
    for name in &names {
        let reason = args.reason.map(Into::into);
        ordering.revoke(name, reason, args.reissue).await?;
        println!("revoked {id}");
    }
    if args.reissue {
        return ordering.order(names).await;
    }
    eprintln!(
        "note: it is still served, and not renewed; 'sekisho cert issue' orders another one, \
         'sekisho cert remove {id}' takes it away"
    );
    Ok(Ended::Done)
}

impl From<Reason> for RevocationReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::KeyCompromise => Self::KeyCompromise,
            Reason::Superseded => Self::Superseded,
            Reason::CessationOfOperation => Self::CessationOfOperation,
            Reason::AffiliationChanged => Self::AffiliationChanged,
        }
    }
}

const EXAMPLES: &str = "\
Revokes the certificate at the CA that issued it. Clients that learn of it refuse
the host until it has another one: --reissue orders that at once. A certificate
that was imported without --renew is revoked where it was ordered.

Examples:
  sekisho cert revoke shop.example --reason key-compromise --reissue
  sekisho cert revoke cert:0123456789abcdef --reason superseded";
