//! `sekisho cert issue`

use std::collections::{BTreeSet, HashSet};
use std::io::Write as _;

use anyhow::anyhow;
use sekisho_certs::{Clock, HostPattern, LineageName, Sealer, Tenant, printable};
use sekisho_issuance::acme::ChallengeType;
use sekisho_issuance::solver::{Delegation, Solvers};
use sekisho_server::value::Unit;

use crate::cli::cert::joined;
use crate::cli::issuance::{Issuance, Wanted, WishArgs};
use crate::config::Config;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::terminal::output::{Output, PAGE};
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
    /// Print the CNAMEs to set and end: servers order once they are there, within this time
    ///
    /// Servers look every 5 minutes whether they lead into the zone of [acme.dns] serve. Names are
    /// then proved wherever their addresses lead.
    #[arg(long, value_name = "TIME", value_parser = wait, conflicts_with = "solver")]
    wait_for_cname: Option<i64>,
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
    let mut wishes = args.wishes.clone();
    if args.wait_for_cname.is_some() {
        wishes.solver = Some(ChallengeType::Dns01);
    }
    issuance.check(&certificates, &wishes)?;
    let wait = args.wait_for_cname;
    let wanted = Wanted {
        certificates,
        wishes: &wishes,
        tenant: args.tenant.as_ref(),
        key_type: issuance.key_type,
        waits_until: wait.map(|time| Clock::System.now() + time),
    };
    if wait.is_some() {
        return leave(config, &issuance.solvers(), &wanted).await;
    }
    let sealer = open::create(config).await?;
    order(issuance, &sealer, &wanted).await
}

/// Leaves certificates to the servers, which wait for CNAMEs, and prints these.
async fn leave(config: &Config, solvers: &Solvers, wanted: &Wanted<'_>) -> Result<Ended> {
    let served = solvers.served().ok_or_else(|| {
        anyhow!(
            "{} has no zone that servers answer for; add [acme.dns.\"dcv.example.net\"] with \
             serve = [\"0.0.0.0:53\"], a zone of yours, here and on all servers",
            config.file.display()
        )
    })?;
    let sealer = open::create(config).await?;
    let names = wanted.put(&sealer).await?;
    tell_shared(&sealer, &wanted.certificates, &names).await?;
    let mut records = BTreeSet::new();
    for page in names.chunks(PAGE) {
        let lineages = sealer.catalog().lineages(page).await?;
        let named = lineages.iter().flat_map(|one| {
            let names = one.names.iter().filter(|name| solvers.dns(name).is_none());
            names.map(move |name| (name, &one.tenant))
        });
        let hosts: Vec<_> = named.collect();
        let page = served.delegations(&sealer, &hosts).await?;
        records.extend(page.iter().map(Delegation::to_string));
    }
    let mut output = Output::new();
    for record in records {
        writeln!(output, "set {record}")?;
    }
    output.flush()?;
    Ok(Ended::Done)
}

/// Reads a time of 1 hour to 90 days, in seconds.
fn wait(text: &str) -> Result<i64, String> {
    let time = i64::try_from(Unit::Time.parse(text)? / 1000).ok();
    let time = time.filter(|time| (3600..=90 * 24 * 3600).contains(time));
    time.ok_or_else(|| format!("{text}: write a time from 1h to 90d"))
}

/// Orders a certificate for an existing host.
pub(crate) async fn order_one(
    issuance: Issuance<'_>,
    sealer: &Sealer,
    name: &HostPattern,
) -> Result<Ended> {
    let wanted = Wanted {
        certificates: vec![std::slice::from_ref(name)],
        wishes: &WishArgs::default(),
        tenant: None,
        key_type: issuance.key_type,
        waits_until: None,
    };
    order(issuance, sealer, &wanted).await
}

async fn order(issuance: Issuance<'_>, sealer: &Sealer, wanted: &Wanted<'_>) -> Result<Ended> {
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
  sekisho cert issue shop.example --key rsa
  sekisho cert issue '*.shop.example' --wait-for-cname 7d";
