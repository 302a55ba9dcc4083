//! Lists of hosts, of their owners and of credentials.

use super::Postgres;
use super::fault::Fault;
use super::params::Owned;
use super::read::{LIST_CREDENTIALS, LIST_HOSTS};
use crate::catalog_row::{self, listed_credential, listed_host, signed};
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, CredentialPage, HostFilter, HostPage, Result};

impl Postgres {
    pub(super) async fn page_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<HostPage> {
        let (start, most) = (catalog_row::list_start(after), catalog_row::limit(limit));
        let params: Owned = vec![Box::new(start), Box::new(most)];
        let read = self.list(LIST_HOSTS, params, |row| listed_host(row, 0));
        Ok(HostPage::of(read.await?, filter, limit))
    }

    pub(super) async fn page_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Vec<Tenant>> {
        let after = after.map(|after| after.as_str().to_owned());
        let params: Owned = vec![Box::new(after), Box::new(catalog_row::limit(limit))];
        let read = self.list(TENANTS, params, |row| {
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
        let after = after.map_or(-1, |(_, id)| signed(id.as_u64()));
        let params: Owned = vec![Box::new(after), Box::new(catalog_row::limit(limit))];
        let read = self.list(LIST_CREDENTIALS, params, |row| listed_credential(row, 0));
        Ok(CredentialPage::of(read.await?, filter, limit))
    }
}

const TENANTS: &str = r#"SELECT DISTINCT tenant COLLATE "C" AS name FROM sekisho.hosts
    WHERE $1 IS NULL OR tenant COLLATE "C" > $1 ORDER BY name LIMIT $2"#;
