//! Lists of hosts, of their owners, of credentials and lineages: one statement for each
//! condition that may lead.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Postgres;
use super::connection::Connection;
use super::lineages;
use super::params::{Owned, column};
use super::read::{LIST_CREDENTIALS, LIST_HOSTS};
use super::rows::get;
use crate::catalog_row::{
    self, listed_credential, listed_credential_columns, listed_host, listed_host_columns,
    unnamed_host,
};
use crate::indexes::Index;
use crate::lineage_row;
use crate::lists::{self, Owners};
use sekisho_certs::credential::{CredentialId, SealedBytes};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Lineage, LineageName, Listed};
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, CredentialPage, HostFilter, HostPage, Leading, Result};

impl Postgres {
    pub(super) async fn page_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<HostPage> {
        let leading = filter.leading();
        self.need(lists::indexes(leading)).await?;
        let text = match leading {
            Leading::Suspended => HOSTS_SUSPENDED,
            Leading::WithoutCertificate => HOSTS_WITHOUT_CERTIFICATE,
            Leading::Under(_) => {
                self.name_hosts().await?;
                HOSTS_UNDER
            }
            Leading::Tenant(_) => HOSTS_OF_TENANT,
            Leading::Origin(_) => HOSTS_OF_ORIGIN,
            Leading::All => LIST_HOSTS,
        };
        let (start, value) = lists::range(leading, after);
        let mut params: Owned = vec![Box::new(start), Box::new(catalog_row::limit(limit))];
        if let Some(value) = value {
            params.push(Box::new(value));
        }
        let read = self.list(text, params, listed_host).await?;
        Ok(HostPage::of(read, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        self.need(&[Index::HostsByTenant]).await?;
        let mut after = after.map(|after| after.as_str().to_owned());
        loop {
            let mut params: Owned = vec![Box::new(catalog_row::limit(limit))];
            let text = match after {
                None => TENANTS,
                Some(name) => {
                    params.push(Box::new(name));
                    TENANTS_AFTER
                }
            };
            let names = self.list(text, params, |row| get::<String>(row, 0));
            match Owners::of(names.await?) {
                Owners::Page(page) => return Ok(page),
                Owners::After(name) => after = Some(name),
            }
        }
    }

    pub(super) async fn page_credentials(
        &self,
        filter: &CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> Result<CredentialPage> {
        let (end, id) = lists::credential_start(filter, after);
        let mut params: Owned = vec![Box::new(id), Box::new(catalog_row::limit(limit))];
        let text = match filter {
            CredentialFilter::All => LIST_CREDENTIALS,
            CredentialFilter::Ends { until, .. } => {
                self.need(&[Index::CredentialsByEnd]).await?;
                params.push(Box::new(end));
                params.push(Box::new(*until));
                CREDENTIALS_BY_END
            }
            CredentialFilter::Origin(source) => {
                self.need(&[Index::CredentialsByOrigin]).await?;
                params.push(Box::new(source.to_string()));
                CREDENTIALS_OF_ORIGIN
            }
        };
        let read = self.list(text, params, listed_credential).await?;
        Ok(CredentialPage::of(read, filter, limit))
    }

    pub(super) async fn page_lineages(
        &self,
        which: Listed,
        after: Option<&LineageName>,
        limit: usize,
    ) -> Result<Vec<Lineage<SealedBytes>>> {
        let after = after.map_or(String::new(), LineageName::to_string);
        let limit = catalog_row::limit(limit);
        let params: Owned = vec![Box::new(self.now_ms()), Box::new(after), Box::new(limit)];
        let text = match which {
            Listed::All => lineages::LIST_LINEAGES,
            Listed::Failing => lineages::LIST_FAILING,
            Listed::Without => {
                self.need(&[Index::LineagesWithoutCertificate]).await?;
                lineages::LIST_WITHOUT
            }
        };
        self.list(text, params, lineage_row::read).await
    }

    /// Refuses a list that lacks one of its indexes, which would read the whole table.
    async fn need(&self, indexes: &[Index]) -> Result<()> {
        for index in indexes {
            let bit = 1 << *index as u16;
            // Relaxed: a thread that sees the bit late asks the database once more.
            if self.indexes.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let name = format!("sekisho.{}", index.name());
            let is_there = self.one(HAS_INDEX, vec![Box::new(name)], |row| get::<bool>(row, 0));
            if is_there.await? != Some(true) {
                return Err(index.lacking());
            }
            self.indexes.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives the rows of older programs the name by which lists below a domain find them.
    /// That is no change: it takes no number, and a host keeps its version.
    async fn name_hosts(&self) -> Result<()> {
        loop {
            let unnamed = self.list(UNNAMED, Vec::new(), unnamed_host).await?;
            if unnamed.is_empty() {
                return Ok(());
            }
            let name = async move |on: Arc<Connection>| {
                let patterns = column(&unnamed, |one| one.0.as_str());
                let names = column(&unnamed, |one| one.1.as_str());
                on.query(NAME, &[&patterns, &names]).await
            };
            self.pool.call(self.options().write, name).await?;
        }
    }
}

/// An index whose making broke off is there, and not valid.
const HAS_INDEX: &str = "SELECT EXISTS (SELECT FROM pg_index
    WHERE indexrelid = to_regclass($1) AND indisvalid)";

macro_rules! hosts {
    ($which:literal) => {
        concat!(
            "SELECT ",
            listed_host_columns!(),
            " FROM sekisho.hosts h WHERE ",
            $which,
            " LIMIT $2"
        )
    };
}

pub(super) const HOSTS_SUSPENDED: &str =
    hosts!("h.suspended IS NOT NULL AND h.pattern > $1 ORDER BY h.pattern");

pub(super) const HOSTS_WITHOUT_CERTIFICATE: &str = hosts!(
    "h.ecdsa IS NULL AND h.ed25519 IS NULL AND h.rsa IS NULL AND h.pattern > $1
    ORDER BY h.pattern"
);

pub(super) const HOSTS_UNDER: &str = hosts!(
    "h.reversed IS NOT NULL AND h.reversed >= $1 AND h.reversed < $3 ORDER BY h.reversed"
);

pub(super) const HOSTS_OF_TENANT: &str =
    hosts!(r#"h.tenant COLLATE "C" = $3 AND h.pattern > $1 ORDER BY h.pattern"#);

pub(super) const HOSTS_OF_ORIGIN: &str =
    hosts!("h.origin IS NOT NULL AND h.origin = $3 AND h.pattern > $1 ORDER BY h.pattern");

pub(super) const UNNAMED: &str = "SELECT pattern FROM sekisho.hosts
    WHERE reversed IS NULL ORDER BY pattern LIMIT 1000";

/// Locks in the order of the patterns, as writers do: two that lock several never wait for
/// each other.
pub(super) const NAME: &str = "
WITH locked AS MATERIALIZED (
    SELECT pattern FROM sekisho.hosts WHERE pattern = ANY ($1) AND reversed IS NULL
    ORDER BY pattern FOR UPDATE
)
UPDATE sekisho.hosts h SET reversed = n.name
FROM unnest($1::text[], $2::text[]) AS n (pattern, name)
JOIN locked ON locked.pattern = n.pattern
WHERE h.pattern = n.pattern";

macro_rules! credentials {
    ($which:literal) => {
        concat!(
            "SELECT ",
            listed_credential_columns!(),
            " FROM sekisho.credentials c LEFT JOIN sekisho.issuers i ON i.id = c.issuer
          WHERE ",
            $which,
            " LIMIT $2"
        )
    };
}

pub(super) const CREDENTIALS_BY_END: &str = credentials!(
    "(c.not_after, c.id) > ($3, $1) AND c.not_after < $4 ORDER BY c.not_after, c.id"
);

pub(super) const CREDENTIALS_OF_ORIGIN: &str =
    credentials!("c.origin IS NOT NULL AND c.origin = $3 AND c.id > $1 ORDER BY c.id");

/// Goes from owner to owner, however many hosts each has.
macro_rules! tenants {
    ($first:literal) => {
        concat!(
            r#"
WITH RECURSIVE t(tenant) AS (
    SELECT min(tenant COLLATE "C") FROM sekisho.hosts WHERE tenant COLLATE "C" "#,
            $first,
            r#" UNION ALL
    SELECT (SELECT min(h.tenant COLLATE "C") FROM sekisho.hosts h
        WHERE h.tenant COLLATE "C" > t.tenant) FROM t WHERE t.tenant IS NOT NULL
)
SELECT tenant FROM t WHERE tenant IS NOT NULL LIMIT $1"#
        )
    };
}

pub(super) const TENANTS: &str = tenants!(">= ''");

pub(super) const TENANTS_AFTER: &str = tenants!("> $2");
