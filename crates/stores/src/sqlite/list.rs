//! Lists of hosts, of their owners, of credentials and lineages: one statement for each
//! condition that may lead. Each names its index: SQLite refuses it without that index, and
//! does not read the whole table.

use rusqlite::types::Value;
use rusqlite::{TransactionBehavior, params_from_iter};

use super::Sqlite;
use super::lineages;
use super::read::StoreConnection;
use super::statements::{first, list, run};
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

impl Sqlite {
    pub(super) async fn page_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<HostPage> {
        let leading = filter.leading();
        let indexes = lists::indexes(leading);
        let text = match leading {
            Leading::Suspended => HOSTS_SUSPENDED,
            Leading::WithoutCertificate => HOSTS_WITHOUT_CERTIFICATE,
            Leading::Under(_) => {
                self.name_hosts(indexes).await?;
                HOSTS_UNDER
            }
            Leading::Tenant(_) => HOSTS_OF_TENANT,
            Leading::Origin(_) => HOSTS_OF_ORIGIN,
            Leading::All => HOSTS,
        };
        let (start, value) = lists::range(leading, after);
        let mut values: Vec<Value> = vec![start.into(), catalog_row::limit(limit).into()];
        values.extend(value.map(Value::from));
        let read = self.read(move |connection| {
            connection.need(indexes)?;
            connection.list(text, params_from_iter(values), |row| listed_host(row))
        });
        Ok(HostPage::of(read.await?, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        let mut after = after.map(|after| after.as_str().to_owned());
        loop {
            let values = [Value::from(catalog_row::limit(limit))].into_iter();
            let values: Vec<_> = values.chain(after.map(Value::from)).collect();
            let names = self.read(move |connection| {
                connection.need(&[Index::HostsByTenant])?;
                let text = match values.len() {
                    1 => TENANTS,
                    _ => TENANTS_AFTER,
                };
                connection.list(text, params_from_iter(values), |row| Ok(row.get::<_, String>(0)?))
            });
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
        let most = catalog_row::limit(limit);
        let mut values: Vec<Value> = vec![id.into(), most.into()];
        let (text, indexes): (_, &'static [Index]) = match filter {
            CredentialFilter::All => (CREDENTIALS, &[]),
            CredentialFilter::Ends { until, .. } => {
                values.extend([end, *until].map(Value::from));
                (CREDENTIALS_BY_END, &[Index::CredentialsByEnd])
            }
            CredentialFilter::Origin(source) => {
                values.push(source.to_string().into());
                (CREDENTIALS_OF_ORIGIN, &[Index::CredentialsByOrigin])
            }
        };
        let read = self.read(move |connection| {
            connection.need(indexes)?;
            connection.list(text, params_from_iter(values), |row| listed_credential(row))
        });
        Ok(CredentialPage::of(read.await?, filter, limit))
    }

    pub(super) async fn page_lineages(
        &self,
        which: Listed,
        after: Option<&LineageName>,
        limit: usize,
    ) -> Result<Vec<Lineage<SealedBytes>>> {
        let after = after.map_or(String::new(), LineageName::to_string);
        let now_ms = self.file.options.clock.now_ms();
        let values = (now_ms, after, catalog_row::limit(limit));
        let (text, indexes): (_, &'static [Index]) = match which {
            Listed::All => (lineages::LINEAGES, &[]),
            Listed::Failing => (lineages::FAILING_LINEAGES, &[]),
            Listed::Without => (
                lineages::LINEAGES_WITHOUT,
                &[Index::LineagesWithoutCertificate],
            ),
        };
        let read = self.read(move |connection| {
            connection.need(indexes)?;
            connection.list(text, values, |row| lineage_row::read(row))
        });
        read.await
    }

    /// Gives the rows of older programs the name by which lists below a domain find them.
    async fn name_hosts(&self, indexes: &'static [Index]) -> Result<()> {
        let unnamed = self.read(move |connection| {
            connection.need(indexes)?;
            connection.list(UNNAMED, [1], |_| Ok(()))
        });
        if unnamed.await?.is_empty() {
            return Ok(());
        }
        while self.change(StoreConnection::name_hosts).await? {}
        Ok(())
    }
}

impl StoreConnection {
    /// Refuses a list that lacks one of its indexes.
    fn need(&mut self, indexes: &[Index]) -> Result<()> {
        self.run(|connection| {
            for index in indexes {
                if first(connection, HAS_INDEX, [index.name()], |_| Ok(()))?.is_none() {
                    return Err(index.lacking().into());
                }
            }
            Ok(())
        })
    }

    /// Names some hosts, and returns whether more may lack a name. That is no change: it
    /// takes no number, and a host keeps its version.
    fn name_hosts(&mut self) -> Result<bool> {
        self.run(|connection| {
            let sql = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let unnamed = list(&sql, UNNAMED, [NAMED_AT_ONCE], |row| unnamed_host(row))?;
            for (pattern, reversed) in &unnamed {
                run(&sql, NAME, [pattern, reversed])?;
            }
            sql.commit()?;
            Ok(unnamed.len() == NAMED_AT_ONCE)
        })
    }
}

/// Statements whose plans a test reads.
#[cfg(test)]
pub(super) fn indexed() -> [&'static str; 11] {
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
        lineages::LINEAGES_WITHOUT,
    ]
}

/// Rows that one transaction names: some 5 ms of the writer's lock.
const NAMED_AT_ONCE: usize = 1000;

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

const UNNAMED: &str = "SELECT pattern FROM hosts INDEXED BY hosts_unnamed
    WHERE reversed IS NULL AND pattern > '' ORDER BY pattern LIMIT ?1";

const NAME: &str = "UPDATE hosts SET reversed = ?2 WHERE pattern = ?1 AND reversed IS NULL";

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
