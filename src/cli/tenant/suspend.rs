//! `sekisho tenant suspend` and `resume`

use anyhow::ensure;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{HostFilter, HostRecord, Sealer, Secret, Site, StoreError, Tenant};

use crate::cli::edit::Edit;
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

#[derive(Debug, clap::Args)]
#[command(after_help = RESUME)]
pub(crate) struct ResumeArgs {
    /// The tenant; '' is the operator
    #[arg(value_name = "T", value_parser = Tenant::parse)]
    tenant: Tenant,
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

pub(super) async fn resume(sealer: &Sealer, args: &ResumeArgs) -> Result<Ended> {
    let changed = set(sealer, &args.tenant, None).await?;
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
        let listed = sealer.catalog().list_hosts(&filter, after.as_ref(), AT_ONCE);
        let listed = listed.await?;
        // What can't be read is not served, and no write takes it.
        let readable = listed.hosts.iter().filter(|one| one.unreadable.is_none());
        let writes: Vec<_> = readable.filter_map(|one| write(one, page)).collect();
        let count = writes.len();
        if count > 0 {
            match sealer.write(writes).await {
                // Others write these hosts, too.
                Err(StoreError::Conflict(_)) if conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                    continue;
                }
                written => written?,
            };
        }
        (found, changed) = (found + listed.hosts.len(), changed + count);
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

/// Returns the write of a record with this page; none if it has that.
fn write(record: &HostRecord, page: Option<&Site>) -> Option<Write<Secret>> {
    let expect = Precondition::Version(record.version);
    match with_page(record.clone(), page) {
        Edit::Put(record) => Some(Write::PutHost(record, expect)),
        Edit::Keep | Edit::Remove => None,
    }
}

/// Hosts of one transaction, which takes some 50 ms.
const AT_ONCE: usize = 500;
/// Pages that are read again; more conflicts mean that another program writes the hosts
/// without pause.
const MAX_CONFLICTS: usize = 100;

const SUSPEND: &str = "\
Requests get the page, also on connections that are open; sites stay in the
records, certificates are served and renewed. Nothing that a tenant may write, and
no 'host set', lifts it. Hosts that are made later are not suspended. Servers of an
older version serve the sites on: upgrade them first. If it is stopped or killed,
run it again.

Examples:
  sekisho tenant suspend anna
  sekisho tenant suspend anna --status 402 --text unpaid.txt
  sekisho host list --suspended --tenant anna";

const RESUME: &str = "\
Lifts suspensions of single hosts of the tenant, too.

Examples:
  sekisho tenant resume anna";
