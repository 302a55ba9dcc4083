//! Lists of hosts, of their owners and of credentials.

use super::Sqlite;
use super::read::{CREDENTIALS, HOSTS};
use super::rows::Fault;
use crate::catalog_row::{self, listed_credential, listed_host};
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, CredentialPage, HostFilter, HostPage, Result};

impl Sqlite {
    pub(super) async fn page_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<HostPage> {
        let values = (catalog_row::list_start(after), catalog_row::limit(limit));
        let read = self.list(HOSTS, values, |row| listed_host(row, 0)).await?;
        Ok(HostPage::of(read, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        let after = after.map(|after| after.as_str().to_owned());
        let values = (after, catalog_row::limit(limit));
        let read = self.list(TENANTS, values, |row| {
            Tenant::parse(catalog_row::text(row, 0)?).map_err(Fault::Value)
        });
        read.await
    }

    pub(super) async fn page_credentials(
        &self,
        filter: &CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> Result<CredentialPage> {
        let after = after.map_or(-1, |(_, id)| id.as_u64().cast_signed());
        let values = (after, catalog_row::limit(limit));
        let read = self.list(CREDENTIALS, values, |row| listed_credential(row, 0));
        Ok(CredentialPage::of(read.await?, filter, limit))
    }
}

const TENANTS: &str = "SELECT DISTINCT tenant FROM hosts
    WHERE ?1 IS NULL OR tenant > ?1 ORDER BY tenant LIMIT ?2";
