//! Finds hosts that are not served as their records say.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use sekisho_certs::{Catalog, ClientCa, HostFilter, HostRecord};
use sekisho_server::site::{Guard, Site, SiteError};

use crate::config::Config;
use crate::terminal::output::{Output, PAGE};

/// Hosts whose site or client CA the servers of a configuration refuse.
#[derive(Default)]
pub(super) struct Refused {
    /// Sites with a root or upstream that is not allowed.
    outside: Hosts,
    /// Sites that can't be read.
    unreadable: Hosts,
    /// Client CAs that verify nobody.
    client_cas: Hosts,
    /// Records whose tenant or policy can't be read.
    records: Hosts,
    /// Hosts of tenants whose folders no entry with `{tenant}` keeps from other tenants.
    /// They are served.
    together: usize,
    /// Hosts whose scripts run in a pool that is not their tenant's alone. They are served.
    pools: Hosts,
}

#[derive(Default)]
struct Hosts {
    count: usize,
    /// The first hosts.
    lines: Vec<String>,
}

/// Reads all hosts of the catalog.
pub(super) async fn refused(catalog: &dyn Catalog, config: &Config) -> Result<Refused> {
    let guard = config.guard(Arc::new(config.own_addresses()));
    let mut refused = Refused::default();
    let all = HostFilter::default();
    let mut after = None;
    loop {
        let page = catalog.list_hosts(&all, after.as_ref(), PAGE).await?;
        for record in &page.hosts {
            refused.note(record, config, &guard);
        }
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    Ok(refused)
}

impl Refused {
    fn note(&mut self, record: &HostRecord, config: &Config, guard: &Guard) {
        // Other programs may write a store, without the checks of `host set`.
        if let Some(why) = &record.unreadable {
            self.records.add(record, why);
            return;
        }
        let client_ca = record.tls.client_ca.as_ref();
        if let Some(Err(why)) = client_ca.map(|ca| ClientCa::check(ca.pem().as_bytes())) {
            self.client_cas.add(record, &why);
        }
        let site = match record.site_in_effect() {
            Some(stored) => Site::parse(stored, &record.tenant),
            // Folders of [site] may depend on the tenant.
            None => config.site.of_tenant(&record.tenant),
        };
        match site {
            Ok(site) => {
                if let Some(refused) = site.refused(guard, Some(&record.tenant)) {
                    self.outside.add(record, &refused);
                }
                let is_shared = !record.tenant.as_str().is_empty() && !site.keeps_apart(guard);
                self.together += usize::from(is_shared);
                if let Some(pool) = site.common_pools(&record.tenant).first() {
                    self.pools.add(record, pool);
                }
            }
            Err(error @ SiteError::Moved(_)) => self.outside.add(record, &error),
            Err(error) => self.unreadable.add(record, &error),
        }
    }

    /// Returns whether there are such hosts.
    pub(super) fn any(&self) -> bool {
        let all = [
            &self.outside,
            &self.unreadable,
            &self.client_cas,
            &self.records,
        ];
        all.iter().any(|hosts| hosts.count > 0)
    }

    /// Warns of the hosts, if there are any.
    pub(super) fn write(&self, output: &mut Output) -> Result<()> {
        let text = "hosts have a client CA that can't be used; change it with `sekisho host set`:";
        self.client_cas.write(text, output)?;
        let text = "hosts are not served, their records can't be read: a later version or another \
                    program wrote them; correct them with that, or remove them with `sekisho \
                    host remove`:";
        self.records.write(text, output)?;
        let text = "hosts are answered with 503; change their site with `sekisho host set`, or \
                    [sites] allow:";
        self.outside.write(text, output)?;
        let text = "hosts are not served, their site can't be read; write it again with \
                    `sekisho host set`:";
        self.unreadable.write(text, output)?;
        let text = "hosts have a `fastcgi` server whose address does not name their tenant: scripts of \
                    other tenants may run there, as the same user; write sockets such as \
                    \"unix:/run/php/{tenant}.sock\":";
        self.pools.write(text, output)?;
        if self.together > 0 {
            writeln!(
                output,
                "{} hosts have a tenant and a folder in an entry of [sites] allow without \
                 {{tenant}}: a link there may lead to another tenant's files; write entries such \
                 as \"/srv/www/{{tenant}}\"",
                self.together
            )?;
        }
        Ok(())
    }
}

impl Hosts {
    fn add(&mut self, record: &HostRecord, why: &dyn std::fmt::Display) {
        self.count += 1;
        if self.lines.len() < MAX_NAMED {
            self.lines.push(format!("{}: {why}", record.pattern));
        }
    }

    fn write(&self, text: &str, output: &mut Output) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        writeln!(output, "{} {text}", self.count)?;
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

/// Hosts that are named: enough to see what they have in common.
const MAX_NAMED: usize = 20;
