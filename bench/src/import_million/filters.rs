//! Pages of lists among millions of hosts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Catalog, CredentialFilter, HostFilter, HostName, HostPattern, HostRecord, Origin, References,
    Sealer, Secret, Site, Tenant,
};

use super::archive::host;
use super::visits::HOT;

/// Fills the catalog up to so many hosts, which share the certificate of a hot one, and reads
/// pages of each filter. Prints the slowest of each; returns the slowest of all.
pub(super) async fn measure(name: &str, sealer: &Sealer, hosts: usize) -> Result<Duration> {
    fill(name, sealer, hosts).await?;
    let catalog = sealer.catalog();
    let mut slowest = Duration::ZERO;
    for (what, filter) in of_hosts()? {
        let took = pages_of_hosts(catalog.as_ref(), &filter).await?;
        println!("{name}: pages of hosts, {what}: {took:.1?} at most");
        slowest = slowest.max(took);
    }
    for (what, filter) in of_credentials() {
        let took = pages_of_credentials(catalog.as_ref(), &filter).await?;
        println!("{name}: pages of certificates, {what}: {took:.1?} at most");
        slowest = slowest.max(took);
    }
    Ok(slowest)
}

async fn fill(name: &str, sealer: &Sealer, hosts: usize) -> Result<()> {
    let begun = Instant::now();
    let hot = HostPattern::parse(&host(HOT, 1))?;
    let hot = sealer.catalog().hosts(&[hot]).await?;
    let references = hot.first().context("hot hosts were imported")?;
    let references = &references.references;
    for first in (0..hosts).step_by(BATCH) {
        let numbers = first..hosts.min(first + BATCH);
        let puts = numbers.map(|number| record(number, references));
        sealer.write(puts.collect::<Result<_>>()?).await?;
    }
    println!(
        "{name}: {hosts} hosts written in {} s",
        begun.elapsed().as_secs()
    );
    Ok(())
}

/// Makes a host of one of 1,000 tenants, each of which has a domain. One in ten has no
/// certificate, one in a hundred is suspended.
fn record(number: usize, references: &References) -> Result<Write<Secret>> {
    let tenant = number % TENANTS;
    let pattern = HostPattern::parse(&format!("shop-{number:07}.t{tenant}.test"))?;
    let mut record = HostRecord::new(pattern);
    record.tenant = self::tenant(tenant)?;
    // By the number of the tenant's own host: else whole tenants would have none.
    let own = number / TENANTS;
    if !own.is_multiple_of(10) {
        record.references = *references;
    }
    record.suspended = (own % 100 == 1).then(|| Site {
        format: 2,
        json: r#"{"status":503}"#.into(),
    });
    record.origin = Some(Origin::new(format!("source-{}", number % SOURCES)));
    Ok(Write::PutHost(record, Precondition::Any))
}

fn tenant(number: usize) -> Result<Tenant> {
    Tenant::parse(&format!("tenant-{number}")).map_err(anyhow::Error::msg)
}

/// Returns each filter alone, and the two that are used together.
fn of_hosts() -> Result<Vec<(&'static str, HostFilter)>> {
    let none = HostFilter::default;
    let tenant = Some(self::tenant(7)?);
    let under = Some(HostName::parse("t7.test")?);
    Ok(vec![
        ("all", none()),
        (
            "of a tenant",
            HostFilter {
                tenant: tenant.clone(),
                ..none()
            },
        ),
        (
            "below a domain",
            HostFilter {
                under: under.clone(),
                ..none()
            },
        ),
        (
            "of a tenant, below a domain",
            HostFilter {
                tenant,
                under,
                ..none()
            },
        ),
        (
            "without a certificate",
            HostFilter {
                without_certificate: true,
                ..none()
            },
        ),
        (
            "suspended",
            HostFilter {
                suspended: true,
                ..none()
            },
        ),
        (
            "of a source",
            HostFilter {
                origin: Some(Arc::from("source-7")),
                ..none()
            },
        ),
    ])
}

fn of_credentials() -> [(&'static str, CredentialFilter); 3] {
    let ends = CredentialFilter::Ends {
        from: 0,
        until: i64::MAX,
    };
    // Standard input has no name: nothing has an origin, which costs a page, too.
    let source = CredentialFilter::Origin(Arc::from("source-7"));
    [
        ("all", CredentialFilter::All),
        ("by their end", ends),
        ("of a source", source),
    ]
}

/// Reads the first pages of a filter. Returns the longest time of one.
async fn pages_of_hosts(catalog: &dyn Catalog, filter: &HostFilter) -> Result<Duration> {
    let (mut after, mut slowest) = (None, Duration::ZERO);
    for number in 0..PAGES {
        let begun = Instant::now();
        let page = catalog.list_hosts(filter, after.as_ref(), PAGE).await?;
        slowest = slowest.max(begun.elapsed());
        let is_full = page.hosts.len() == PAGE;
        ensure!(number > 0 || is_full, "a filter admits too few hosts");
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(slowest)
}

async fn pages_of_credentials(
    catalog: &dyn Catalog,
    filter: &CredentialFilter,
) -> Result<Duration> {
    let (mut after, mut slowest) = (None, Duration::ZERO);
    for _ in 0..PAGES {
        let begun = Instant::now();
        let page = catalog.list_credentials(filter, after, PAGE).await?;
        slowest = slowest.max(begun.elapsed());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(slowest)
}

const TENANTS: usize = 1000;
const SOURCES: usize = 100;
/// Hosts in one transaction.
const BATCH: usize = 5000;
/// Rows of a page.
const PAGE: usize = 100;
const PAGES: usize = 20;
