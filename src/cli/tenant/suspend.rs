//! `sekisho tenant suspend` and `resume`

use anyhow::ensure;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{HostFilter, Sealer, Site, Tenant};

use crate::cli::host::suspend::{PageArgs, with_page};
use crate::terminal::failure::{Ended, Result, Usage};

#[derive(Debug, clap::Args)]
#[command(after_help = SUSPEND)]
pub(crate) struct Args {
    /// The tenant; '' is the operator
    #[arg(value_name = "T", value_parser = Tenant::parse)]
    tenant: Tenant,
    #[command(flatten)]
    page: PageArgs,
    /// Suspend the operator, too: all hosts that have no tenant
    #[arg(long)]
    yes: bool,
}

pub(super) async fn suspend(sealer: &Sealer, args: &Args) -> Result<Ended> {
    if args.tenant.as_str().is_empty() && !args.yes {
        let why = "'' is the operator: --yes suspends all hosts without a tenant";
        return Err(Usage(why.into()).into());
    }
    let page = args.page.read()?;
    let changed = set(sealer, &args.tenant, Some(&page)).await?;
    println!("{changed} hosts suspended; hosts made later are not");
    Ok(Ended::Done)
}

pub(super) async fn resume(sealer: &Sealer, tenant: &Tenant) -> Result<Ended> {
    let changed = set(sealer, tenant, None).await?;
    println!("{changed} hosts resumed");
    Ok(Ended::Done)
}

/// Suspends all hosts of a tenant with a page, or resumes them with none; returns how many
/// were changed. Each page of hosts is one transaction: what was stopped goes on when it is
/// started again.
async fn set(sealer: &Sealer, tenant: &Tenant, page: Option<&Site>) -> Result<usize> {
    let filter = HostFilter {
        tenant: Some(tenant.clone()),
        ..HostFilter::default()
    };
    let (mut after, mut found, mut changed, mut conflicts) = (None, 0, 0, 0);
    loop {
        let catalog = sealer.catalog();
        let listed = catalog.list_hosts(&filter, after.as_ref(), AT_ONCE);
        let listed = listed.await?;
        let (count, hosts) = (listed.hosts.len(), listed.hosts.into_iter());
        // What can't be read is not served, and no write takes it.
        let readable = hosts.filter(|one| one.unreadable.is_none());
        let writes = readable.filter_map(|record| {
            let expect = Precondition::Version(record.version);
            Some(Write::PutHost(with_page(record, page)?, expect))
        });
        let writes: Vec<_> = writes.collect();
        let written = writes.len();
        if !sealer.try_write(writes).await? {
            // Others write these hosts, too.
            conflicts += 1;
            ensure!(conflicts <= MAX_CONFLICTS, "hosts kept changing; try again");
            continue;
        }
        (found, changed) = (found + count, changed + written);
        let Some(next) = listed.next else { break };
        after = Some(next);
    }
    let shown = tenant.as_str();
    ensure!(
        found > 0,
        "there are no hosts of {shown:?}; 'sekisho tenant list' shows which tenants there are"
    );
    Ok(changed)
}

/// Hosts of one transaction, which takes some 50 ms.
const AT_ONCE: usize = 500;
/// Pages that are read again; more conflicts mean that another program writes the hosts
/// without pause.
const MAX_CONFLICTS: usize = 100;

const SUSPEND: &str = "\
Examples:
  sekisho tenant suspend anna
  sekisho tenant suspend anna --status 402 --text unpaid.txt
  sekisho host list --suspended --tenant anna";

pub(super) const RESUME: &str = "\
Examples:
  sekisho tenant resume anna";
