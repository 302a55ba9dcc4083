//! Changes of a shared catalog, written as the commands write them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use sekisho_certs::credential::{Credential, Dates};
use sekisho_certs::seal::{KeySource, Sealer};
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{Clock, CredentialId, HostPattern, HostRecord, KeyType, Secret};
use sekisho_stores::postgres::{Options, Postgres, Url};
use tokio::runtime::Handle;

use super::services::Remote;
use crate::fixtures::{Authority, Folder, host_name};

/// Writer of certificates that the fixture's authority signs.
pub(crate) struct Changes {
    sealer: Sealer,
    authority: Authority,
}

/// Change of a host: its next certificate.
pub(crate) struct Change {
    pub(crate) host: String,
    pub(crate) leaf: CertificateDer<'static>,
    writes: Vec<Write<Secret>>,
}

impl Changes {
    pub(crate) async fn open(remote: &Remote, fixture: Folder<'_>) -> Result<Self> {
        let url = Url::parse(&remote.url, Path::new("/")).map_err(|why| anyhow!(why))?;
        let options = Options::default();
        let postgres = Postgres::new(&url, &options, &Handle::current())?;
        let key = remote.master_key.clone().context("a sealed store")?;
        let ring = KeySource::File(key).load()?;
        Ok(Self {
            sealer: Sealer::open(Arc::new(postgres), ring).await?,
            authority: Authority::load_or_create(fixture)?,
        })
    }

    /// Prepares a change. Every fifth adds a host, the others replace a
    /// certificate.
    pub(crate) async fn prepare(&self, number: usize) -> Result<Change> {
        let host = match number % 5 {
            0 => format!("new{number}.example.test"),
            _ => host_name(number),
        };
        let key = KeyPair::generate()?;
        let chain = self.authority.chain(&host, &key)?;
        let pem = key.serialize_pem();
        let credential = Credential::parse(chain.as_bytes(), pem.as_bytes(), Dates::Any)?;
        let leaf = credential.chain()[0].clone();
        let id = CredentialId::fresh(&Clock::System);
        let pattern = HostPattern::parse(&host)?;
        let found = self
            .sealer
            .catalog()
            .hosts(std::slice::from_ref(&pattern))
            .await?
            .pop();
        let expect = found
            .as_ref()
            .map(|found| Precondition::Version(found.version));
        let mut record = found.unwrap_or_else(|| HostRecord::new(pattern));
        record.references.set(KeyType::Ecdsa, Some(id));
        let writes = vec![
            Write::PutCredential(
                credential.into_stored(id).into_sealable(),
                Precondition::Absent,
            ),
            Write::PutHost(record, expect.unwrap_or(Precondition::Absent)),
        ];
        Ok(Change { host, leaf, writes })
    }

    /// Writes a change; returns after the commit.
    pub(crate) async fn write(&self, change: Change) -> Result<()> {
        self.sealer.write(change.writes).await?;
        Ok(())
    }
}
