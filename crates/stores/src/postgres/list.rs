//! Lists of hosts, of their owners and of credentials: one statement for each condition that
//! may lead.

use std::sync::atomic::Ordering;

use tokio_postgres::Row;

use super::Postgres;
use super::fault::Step;
use super::params::Owned;
use super::read::{LIST_CREDENTIALS, LIST_HOSTS};
use super::rows::get;
use crate::catalog_row::{
    self, listed_credential, listed_credential_columns, listed_host, listed_host_columns, tenant,
    unnamed_host,
};
use crate::indexes::{INDEXES, lacking};
use crate::lists;
use crate::upgrade::Upgrade;
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{
    CredentialFilter, CredentialPage, HostFilter, HostPage, Leading, Result,
};

impl Postgres {
    pub(super) async fn page_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<HostPage> {
        let leading = filter.leading();
        let (index, text) = match leading {
            Leading::Suspended => ("hosts_suspended", HOSTS_SUSPENDED),
            Leading::WithoutCertificate => ("hosts_without_certificate", HOSTS_WITHOUT_CERTIFICATE),
            Leading::Under(_) => ("hosts_by_name", HOSTS_UNDER),
            Leading::Tenant(_) => ("hosts_by_tenant", HOSTS_OF_TENANT),
            Leading::Origin(_) => ("hosts_by_origin", HOSTS_OF_ORIGIN),
            Leading::All => ("", LIST_HOSTS),
        };
        if let Leading::Under(_) = leading {
            self.name_hosts(index).await?;
        }
        let (start, value) = lists::range(leading, after);
        let mut params: Owned = vec![Box::new(start), Box::new(catalog_row::limit(limit))];
        if let Some(value) = value {
            params.push(Box::new(value));
        }
        let read = self.page(index, text, params, listed_host).await?;
        Ok(HostPage::of(read, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        let mut params: Owned = vec![Box::new(catalog_row::limit(limit))];
        if let Some(after) = after {
            params.push(Box::new(after.as_str().to_owned()));
        }
        let text = after.map_or(TENANTS, |_| TENANTS_AFTER);
        self.page("hosts_by_tenant", text, params, tenant).await
    }

    pub(super) async fn page_credentials(
        &self,
        filter: &CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> Result<CredentialPage> {
        let (end, id) = lists::credential_start(filter, after);
        let mut params: Owned = vec![Box::new(id), Box::new(catalog_row::limit(limit))];
        let (index, text) = match filter {
            CredentialFilter::All => ("", LIST_CREDENTIALS),
            CredentialFilter::Ends { until, .. } => {
                params.push(Box::new(end));
                params.push(Box::new(*until));
                ("credentials_by_end", CREDENTIALS_BY_END)
            }
            CredentialFilter::Origin(source) => {
                params.push(Box::new(source.to_string()));
                ("credentials_by_origin", CREDENTIALS_OF_ORIGIN)
            }
        };
        let read = self.page(index, text, params, listed_credential).await?;
        Ok(CredentialPage::of(read, filter, limit))
    }

    /// Reads the rows of a statement, unless it lacks its index and would read the whole
    /// table. The statement of an empty name needs none.
    pub(super) async fn page<T: Send + 'static>(
        &self,
        index: &'static str,
        text: &'static str,
        params: Owned,
        row: fn(&Row) -> Step<T>,
    ) -> Result<Vec<T>> {
        let place = INDEXES.iter().position(|one| one.0 == index);
        let bit = place.map_or(0, |place| 1 << place);
        // Relaxed: a thread that sees the bit late asks the database once more.
        if self.indexes.load(Ordering::Relaxed) & bit != bit {
            let name: Owned = vec![Box::new(format!("sekisho.{index}"))];
            let is_there = self.one(HAS_INDEX, name, |row| get::<bool>(row, 0));
            if is_there.await? != Some(true) {
                return Err(lacking(index));
            }
            self.indexes.fetch_or(bit, Ordering::Relaxed);
        }
        self.list(text, params, row).await
    }

    /// Gives the rows of older programs the name by which lists below a domain find them.
    async fn name_hosts(&self, index: &'static str) -> Result<()> {
        loop {
            let all: Owned = vec![Box::new(String::new())];
            let unnamed = self.page(index, UNNAMED, all, unnamed_host).await?;
            if unnamed.is_empty() {
                return Ok(());
            }
            self.name(unnamed).await?;
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

pub(super) const HOSTS_UNDER: &str =
    hosts!("h.reversed IS NOT NULL AND h.reversed >= $1 AND h.reversed < $3 ORDER BY h.reversed");

pub(super) const HOSTS_OF_TENANT: &str =
    hosts!(r#"h.tenant COLLATE "C" = $3 AND h.pattern > $1 ORDER BY h.pattern"#);

pub(super) const HOSTS_OF_ORIGIN: &str =
    hosts!("h.origin IS NOT NULL AND h.origin = $3 AND h.pattern > $1 ORDER BY h.pattern");

pub(super) const UNNAMED: &str = "SELECT pattern FROM sekisho.hosts
    WHERE reversed IS NULL AND pattern > $1 ORDER BY pattern LIMIT 1000";

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

pub(super) const CREDENTIALS_BY_END: &str =
    credentials!("(c.not_after, c.id) > ($3, $1) AND c.not_after < $4 ORDER BY c.not_after, c.id");

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
