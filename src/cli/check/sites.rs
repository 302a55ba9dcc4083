//! Finds hosts that are not served as their records say.

use std::io::Write;

use anyhow::Result;
use sekisho_certs::{Catalog, HostRecord};
use sekisho_server::site::{Guard, Refusal, Site};

use super::client_cas::Unusable;
use crate::cli::output::{Output, PAGE};
use crate::config::Config;

/// Hosts whose root or client CA the servers of a configuration refuse.
#[derive(Default)]
pub(super) struct Refused {
    count: usize,
    /// The first hosts.
    lines: Vec<String>,
    client_cas: Unusable,
}

/// Reads all hosts of the catalog.
pub(super) async fn refused(catalog: &dyn Catalog, config: &Config) -> Result<Refused> {
    let guard = Guard::new(config.allowed_roots.clone(), config.own_files());
    let mut refused = Refused::default();
    let mut after = None;
    loop {
        let page = catalog.list_hosts(after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.pattern.clone());
        for record in &page {
            refused.note(record, &guard);
            refused.client_cas.note(record);
        }
    }
    Ok(refused)
}

impl Refused {
    fn note(&mut self, record: &HostRecord, guard: &Guard) {
        let site = record.site.as_ref().map(Site::parse);
        // A site that can't be parsed is reported when it is served.
        let Some(Ok(site)) = site else { return };
        if let Some(refusal) = site.refusal(guard) {
            self.count += 1;
            if self.lines.len() < MAX_NAMED {
                self.lines.push(line(record, &site, refusal));
            }
        }
    }

    /// Warns of the hosts, if there are any.
    pub(super) fn write(&self, output: &mut Output) -> Result<()> {
        self.client_cas.write(output)?;
        if self.count == 0 {
            return Ok(());
        }
        writeln!(
            output,
            "{} hosts are answered with 503; change their root with `sekisho host set`, or \
             [sites] allow:",
            self.count
        )?;
        for line in &self.lines {
            writeln!(output, "  {line}")?;
        }
        let more = self.count - self.lines.len();
        if more > 0 {
            writeln!(output, "  and {more} more")?;
        }
        Ok(())
    }
}

fn line(record: &HostRecord, site: &Site, refusal: Refusal) -> String {
    let root = site.root().unwrap_or_default();
    format!("{}: root {root}: {refusal}", record.pattern)
}

/// Hosts that are named: enough to see what they have in common.
const MAX_NAMED: usize = 20;
