//! Lists of hosts, of their owners and of credentials: one statement for each condition that
//! may lead. Each names its index: without it SQLite refuses the statement, and does not read
//! the whole table.

use rusqlite::types::Value;
use rusqlite::{Params, Row, params_from_iter};

use super::Sqlite;
#[cfg(test)]
use super::lineages;
use super::rows::Step;
use crate::catalog_row::{
    self, listed_credential, listed_credential_columns, listed_host, listed_host_columns, tenant,
    unnamed_host,
};
use crate::indexes::lacking;
use crate::lists;
use crate::upgrade::Upgrade;
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{
    BoxFuture, CredentialFilter, CredentialPage, HostFilter, HostPage, Leading, Result,
};

impl Sqlite {
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
            Leading::All => ("", HOSTS),
        };
        if let Leading::Under(_) = leading {
            self.name_hosts(index).await?;
        }
        let (start, value) = lists::range(leading, after);
        let mut values: Vec<Value> = vec![start.into(), catalog_row::limit(limit).into()];
        values.extend(value.map(Value::from));
        let read = self.page(index, text, params_from_iter(values), |row| {
            listed_host(row)
        });
        Ok(HostPage::of(read.await?, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        let mut values: Vec<Value> = vec![catalog_row::limit(limit).into()];
        values.extend(after.map(|after| Value::from(after.as_str().to_owned())));
        let text = after.map_or(TENANTS, |_| TENANTS_AFTER);
        let values = params_from_iter(values);
        let read = self.page("hosts_by_tenant", text, values, |row| tenant(row));
        read.await
    }

    pub(super) async fn page_credentials(
        &self,
        filter: &CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> Result<CredentialPage> {
        let (end, id) = lists::credential_start(filter, after);
        let mut values: Vec<Value> = vec![id.into(), catalog_row::limit(limit).into()];
        let (index, text) = match filter {
            CredentialFilter::All => ("", CREDENTIALS),
            CredentialFilter::Ends { until, .. } => {
                values.extend([end, *until].map(Value::from));
                ("credentials_by_end", CREDENTIALS_BY_END)
            }
            CredentialFilter::Origin(source) => {
                values.push(source.to_string().into());
                ("credentials_by_origin", CREDENTIALS_OF_ORIGIN)
            }
        };
        let values = params_from_iter(values);
        let read = self.page(index, text, values, |row| listed_credential(row));
        Ok(CredentialPage::of(read.await?, filter, limit))
    }

    /// Reads the rows of a statement, unless it lacks its index. The statement of an empty
    /// name needs none.
    pub(super) fn page<T: Send + 'static>(
        &self,
        index: &'static str,
        text: &'static str,
        values: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        self.read(move |connection| {
            if !index.is_empty() && connection.list(HAS_INDEX, [index], |_| Ok(()))?.is_empty() {
                return Err(lacking(index));
            }
            connection.list(text, values, row)
        })
    }

    /// Gives the rows of older programs the name by which lists below a domain find them.
    async fn name_hosts(&self, index: &'static str) -> Result<()> {
        loop {
            let unnamed = self.page(index, UNNAMED, (), |row| unnamed_host(row));
            let unnamed = unnamed.await?;
            if unnamed.is_empty() {
                return Ok(());
            }
            self.name(unnamed).await?;
        }
    }
}

/// Statements whose plans a test reads.
#[cfg(test)]
pub(super) fn indexed() -> [&'static str; 12] {
    [
        HOSTS,
        HOSTS_SUSPENDED,
        HOSTS_WITHOUT_CERTIFICATE,
        HOSTS_UNDER,
        HOSTS_OF_TENANT,
        HOSTS_OF_ORIGIN,
        CREDENTIALS,
        CREDENTIALS_BY_END,
        CREDENTIALS_OF_ORIGIN,
        UNNAMED,
        UNNAMED_AFTER,
        lineages::LINEAGES_WITHOUT,
    ]
}

const HAS_INDEX: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1";

macro_rules! hosts {
    ($from:literal) => {
        concat!(
            "SELECT ",
            listed_host_columns!(),
            " FROM hosts h ",
            $from,
            " LIMIT ?2"
        )
    };
}

const HOSTS: &str = hosts!("WHERE h.pattern > ?1 ORDER BY h.pattern");

const HOSTS_SUSPENDED: &str = hosts!(
    "INDEXED BY hosts_suspended
    WHERE h.suspended IS NOT NULL AND h.pattern > ?1 ORDER BY h.pattern"
);

const HOSTS_WITHOUT_CERTIFICATE: &str = hosts!(
    "INDEXED BY hosts_without_certificate
    WHERE h.ecdsa IS NULL AND h.ed25519 IS NULL AND h.rsa IS NULL AND h.pattern > ?1
    ORDER BY h.pattern"
);

const HOSTS_UNDER: &str = hosts!(
    "INDEXED BY hosts_by_name
    WHERE h.reversed IS NOT NULL AND h.reversed >= ?1 AND h.reversed < ?3 ORDER BY h.reversed"
);

const HOSTS_OF_TENANT: &str = hosts!(
    "INDEXED BY hosts_by_tenant
    WHERE h.tenant = ?3 AND h.pattern > ?1 ORDER BY h.pattern"
);

const HOSTS_OF_ORIGIN: &str = hosts!(
    "INDEXED BY hosts_by_origin
    WHERE h.origin IS NOT NULL AND h.origin = ?3 AND h.pattern > ?1 ORDER BY h.pattern"
);

/// As many as one transaction names in some 5 ms of the writer's lock.
const UNNAMED: &str = "SELECT pattern FROM hosts INDEXED BY hosts_unnamed
    WHERE reversed IS NULL AND pattern > '' ORDER BY pattern LIMIT 1000";

/// Needs no index.
pub(super) const UNNAMED_AFTER: &str = "SELECT pattern FROM hosts
    WHERE reversed IS NULL AND pattern > ?1 ORDER BY pattern LIMIT 1000";

pub(super) const NAME: &str =
    "UPDATE hosts SET reversed = ?2 WHERE pattern = ?1 AND reversed IS NULL";

macro_rules! credentials {
    ($index:literal, $which:literal) => {
        concat!(
            "SELECT ",
            listed_credential_columns!(),
            " FROM credentials c ",
            $index,
            " LEFT JOIN issuers i ON i.id = c.issuer WHERE ",
            $which,
            " LIMIT ?2"
        )
    };
}

const CREDENTIALS: &str = credentials!("", "c.id > ?1 ORDER BY c.id");

const CREDENTIALS_BY_END: &str = credentials!(
    "INDEXED BY credentials_by_end",
    "(c.not_after, c.id) > (?3, ?1) AND c.not_after < ?4 ORDER BY c.not_after, c.id"
);

const CREDENTIALS_OF_ORIGIN: &str = credentials!(
    "INDEXED BY credentials_by_origin",
    "c.origin IS NOT NULL AND c.origin = ?3 AND c.id > ?1 ORDER BY c.id"
);

/// Goes from owner to owner, however many hosts each has.
macro_rules! tenants {
    ($first:literal) => {
        concat!(
            "WITH RECURSIVE t(tenant) AS (
                SELECT min(tenant) FROM hosts INDEXED BY hosts_by_tenant WHERE tenant ",
            $first,
            " UNION ALL
                SELECT (SELECT min(tenant) FROM hosts INDEXED BY hosts_by_tenant
                    WHERE tenant > t.tenant) FROM t WHERE t.tenant IS NOT NULL
                LIMIT ?1)
            SELECT tenant FROM t WHERE tenant IS NOT NULL"
        )
    };
}

const TENANTS: &str = tenants!(">= ''");

const TENANTS_AFTER: &str = tenants!("> ?2");
