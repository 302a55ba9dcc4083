//! Fills a catalog with lineages.

use std::time::Instant;

use anyhow::{Context, Result};
use sekisho_certs::seal::Sealer;
use sekisho_certs::store::Write;
use sekisho_certs::{Clock, CredentialId, Fence, HostPattern, Lineage, Secret, Tenant};

/// Writes `count` lineages, of which `due` are due. They stand in no order of their
/// due dates, as after months of renewals.
pub(super) async fn fill(name: &str, sealer: &Sealer, count: usize, due: usize) -> Result<()> {
    let (begun, now) = (Instant::now(), Clock::System.now());
    let mut reported = 0;
    for first in (0..count).step_by(BATCH) {
        let last = count.min(first + BATCH);
        let writes = (first..last).map(|number| lineage(number, count, due, now));
        sealer.write(writes.collect::<Result<_>>()?).await?;
        let tenth = last * 10 / count;
        if tenth > reported {
            reported = tenth;
            let seconds = begun.elapsed().as_secs();
            println!("{name}: {last} of {count} lineages written after {seconds} s");
        }
    }
    Ok(())
}

fn lineage(number: usize, count: usize, due: usize, now: i64) -> Result<Write<Secret>> {
    // Visits each rank once: the factor is a prime larger than any count.
    let rank = (number as u64).wrapping_mul(FACTOR) % count as u64;
    let pattern = HostPattern::parse(&format!("shop-{number:07}.example.test"))?;
    let tenant = Tenant::parse(&format!("tenant-{}", number % 1_000));
    let tenant = tenant.map_err(anyhow::Error::msg)?;
    let mut lineage = Lineage::new(tenant, [pattern]).context("it has a name")?;
    lineage.credential = Some(CredentialId::from_u64(number as u64 + 1));
    let behind = i64::try_from(rank)? - i64::try_from(due)?;
    // The due ones within an hour, the others over the next weeks.
    let at = match behind {
        ..0 => now + behind * HOUR / i64::try_from(due)? - 1,
        _ => now + HOUR + behind * INTERVAL / i64::try_from(count)?,
    };
    lineage.due = Some(at);
    // The lineage with the most time left comes last; not in the order of the due dates.
    lineage.turn = at + i64::try_from(number % 100)? * HOUR;
    Ok(Write::PutLineage(lineage, Fence::Any))
}

const BATCH: usize = 20_000;
/// Prime.
const FACTOR: u64 = 2_147_483_647;
const HOUR: i64 = 3600;
/// Seconds between two renewals of a lineage.
pub(super) const INTERVAL: i64 = 60 * 24 * HOUR;
