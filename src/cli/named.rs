//! Arguments NAME of the command line: a pattern, or a credential's id.

use std::fmt;
use std::str::FromStr;

use anyhow::{anyhow, ensure};
use sekisho_certs::{
    Catalog, CredentialId, HostPattern, HostRecord, LastError, SealedBytes, StoredCredential,
};

use crate::cli::lineage;
use crate::terminal::failure::Result;

/// Host by its pattern, or credential by its id.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Credential(CredentialId),
    Host(HostPattern),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("cert:") {
            return text.parse().map(Self::Credential);
        }
        HostPattern::parse(text)
            .map(Self::Host)
            .map_err(|error| error.to_string())
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential(id) => id.fmt(f),
            Self::Host(pattern) => pattern.fmt(f),
        }
    }
}

impl Named {
    /// Returns the credential, or those that the host refers to, in the order
    /// of preference. Fails if there is none.
    pub(crate) async fn credentials(
        &self,
        catalog: &dyn Catalog,
    ) -> Result<Vec<StoredCredential<SealedBytes>>> {
        match self {
            Self::Credential(id) => {
                let found = catalog.credentials(&[*id]).await?;
                ensure!(
                    !found.is_empty(),
                    "there is no credential {id}; 'sekisho cert list' shows which there are"
                );
                Ok(found)
            }
            Self::Host(pattern) => {
                let record = host(catalog, pattern).await?;
                let found = credentials_of(catalog, &record).await?;
                match found.is_empty() {
                    true => Err(no_certificate(catalog, &record).await?),
                    false => Ok(found),
                }
            }
        }
    }
}

/// Returns the record of an existing host.
pub(crate) async fn host(catalog: &dyn Catalog, pattern: &HostPattern) -> Result<HostRecord> {
    let above = pattern.exact().and_then(|name| name.wildcard());
    let asked: Vec<_> = std::iter::once(pattern.clone()).chain(above).collect();
    let found = catalog.hosts(&asked).await?;
    let (found, above): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|record| record.pattern == *pattern);
    let there = match above.first() {
        Some(above) => format!(
            "{0} answers requests for it: sekisho host show '{0}'",
            above.pattern
        ),
        None => "'sekisho host list' shows which there are".to_owned(),
    };
    found
        .into_iter()
        .next()
        .ok_or_else(|| anyhow!("there is no host {pattern}; {there}"))
}

/// Returns the error of a host without a certificate: what its order failed with, if there
/// was one.
async fn no_certificate(catalog: &dyn Catalog, record: &HostRecord) -> Result<anyhow::Error> {
    let pattern = &record.pattern;
    let lineages = lineage::of_host(catalog, record).await?;
    let failed = lineages.into_iter().find_map(|one| one.last_error);
    Ok(match failed {
        Some(LastError { text, .. }) => anyhow!(
            "{pattern} has no certificate: {text}; 'sekisho host show {pattern}' says when it is \
             tried again"
        ),
        None => anyhow!("{pattern} has no certificate; store one with 'sekisho cert import'"),
    })
}

/// Returns the credentials of a record, in the order of preference.
pub(crate) async fn credentials_of(
    catalog: &dyn Catalog,
    record: &HostRecord,
) -> Result<Vec<StoredCredential<SealedBytes>>> {
    let ids: Vec<_> = record.references.iter().map(|(_, id)| id).collect();
    let mut found = catalog.credentials(&ids).await?;
    found.sort_by_key(|credential| credential.key_type);
    Ok(found)
}
