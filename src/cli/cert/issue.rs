//! `sekisho cert issue`

use std::collections::HashSet;

use sekisho_certs::{HostPattern, LineageName, Sealer, Tenant, printable};

use crate::cli::cert::joined;
use crate::cli::issuance::{Issuance, Wanted, WishArgs};
use crate::config::Config;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::terminal::output::PAGE;
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The hosts: names, or '*.' and a name
    #[arg(value_name = "NAME", required = true)]
    names: Vec<HostPattern>,
    /// One certificate for all of them, instead of one for each
    #[arg(long)]
    together: bool,
    #[command(flatten)]
    wishes: WishArgs,
    /// Who owns the hosts that are made; '' is the operator
    #[arg(long, value_name = "T", value_parser = Tenant::parse)]
    tenant: Option<Tenant>,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let mut seen = HashSet::new();
    let names = args.names.iter().filter(|name| seen.insert(*name));
    let names: Vec<_> = names.cloned().collect();
    if args.together && names.len() > MAX_TOGETHER {
        let most = format!("--together: a certificate has at most {MAX_TOGETHER} names");
        return Err(Usage(most).into());
    }
    let each = if args.together { names.len() } else { 1 };
    let certificates: Vec<_> = names.chunks(each).collect();
    let issuance = Issuance::of(config)?;
    issuance.check(&certificates, &args.wishes)?;
    let sealer = open::create(config).await?;
    let tenant = args.tenant.as_ref();
    order(issuance, &sealer, certificates, &args.wishes, tenant).await
}

/// Orders a certificate for an existing host.
pub(crate) async fn order_one(
    issuance: Issuance<'_>,
    sealer: &Sealer,
    name: &HostPattern,
) -> Result<Ended> {
    let names = std::slice::from_ref(name);
    order(issuance, sealer, vec![names], &WishArgs::default(), None).await
}

async fn order(
    issuance: Issuance<'_>,
    sealer: &Sealer,
    certificates: Vec<&[HostPattern]>,
    wishes: &WishArgs,
    tenant: Option<&Tenant>,
) -> Result<Ended> {
    let wanted = Wanted {
        certificates,
        wishes,
        tenant,
        key_type: issuance.key_type,
    };
    let ordering = issuance.ordering(sealer)?;
    let names = wanted.put(sealer).await?;
    tell_shared(sealer, &wanted.certificates, &names).await?;
    ordering.order(names).await
}

/// Tells which names share a certificate with others: an order renews it for all.
async fn tell_shared(
    sealer: &Sealer,
    certificates: &[&[HostPattern]],
    names: &[LineageName],
) -> Result<()> {
    let wanted: Vec<_> = certificates.iter().zip(names).collect();
    for page in wanted.chunks(PAGE) {
        let names: Vec<_> = page.iter().map(|(_, name)| (*name).clone()).collect();
        let found = sealer.catalog().lineages(&names).await?;
        for (asked, name) in page {
            let Some(lineage) = found.iter().find(|one| one.name == **name) else {
                continue;
            };
            if lineage.names.len() > asked.len() {
                let (asked, all) = (joined(asked), joined(&lineage.names));
                let text = format!("{asked} shares a certificate, which is renewed for {all}");
                eprintln!("note: {}", printable(&text));
            }
        }
    }
    Ok(())
}

/// Names of a certificate: Let's Encrypt's limit.
const MAX_TOGETHER: usize = 100;

const EXAMPLES: &str = "\
Makes the hosts that do not exist, orders a certificate for each name from the
CAs of [acme], and waits. Servers with this store answer the challenges, so at
least one must serve ports 80 and 443 of the names; a wildcard is validated by
DNS, [acme.dns.\"ZONE\"]. A name that has a certificate gets a new one. Servers
with [acme] renew it with the same options, and go on with orders that failed or
were left. What failed is listed at the end (exit code 1).

Examples:
  sekisho cert issue shop.example www.shop.example
  sekisho cert issue shop.example www.shop.example --together --tenant anna
  sekisho cert issue '*.shop.example' --ca letsencrypt
  sekisho cert issue shop.example --key rsa";
