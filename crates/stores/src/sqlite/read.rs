//! Reading: every call is one read transaction of one connection.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use super::documents;
use super::find::find;
use super::rows::{
    self, CREDENTIAL_COLUMNS, Fault, HOST_COLUMNS, Step, at, credential_columns, host_columns,
    signed,
};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Answer, Document, DocumentId, DocumentKind, Result};

/// One connection with its prepared statements, for one thread at a time.
pub(crate) struct Reader {
    connection: Connection,
    path: PathBuf,
    generation: u64,
}

impl Reader {
    pub(super) fn new(connection: Connection, path: &Path, generation: u64) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            generation,
        }
    }

    /// Which of the files that lay at the path this one is.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Reads with a connection whose fault gets the file's name.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&mut Connection) -> Step<T>) -> Result<T> {
        at(&self.path, work(&mut self.connection))
    }

    /// What answers for this name: one statement, so one state.
    pub(super) fn find(&mut self, name: &HostName) -> Result<Answer<SealedBytes>> {
        self.run(|connection| find(connection, name))
    }

    pub(super) fn hosts(&mut self, patterns: &[HostPattern]) -> Result<Vec<HostRecord>> {
        self.snapshot(|snapshot| {
            let mut statement = snapshot.prepare_cached(HOST)?;
            let mut found = Vec::with_capacity(patterns.len());
            for pattern in patterns {
                let mut rows = statement.query([pattern.as_str()])?;
                if let Some(row) = rows.next()? {
                    found.push(rows::host(row, 0, pattern.clone())?);
                }
            }
            Ok(found)
        })
    }

    pub(super) fn list_hosts(
        &mut self,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(HOSTS)?;
            let after = after.map_or("", HostPattern::as_str);
            let mut rows = statement.query((after, rows::limit(limit)))?;
            let mut listed = Vec::new();
            while let Some(row) = rows.next()? {
                let pattern = rows::pattern(row, HOST_COLUMNS)?;
                listed.push(rows::host(row, 0, pattern)?);
            }
            Ok(listed)
        })
    }

    pub(super) fn hosts_of(
        &mut self,
        id: CredentialId,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Result<Vec<HostPattern>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(HOSTS_OF)?;
            let after = after.map_or("", HostPattern::as_str);
            let mut rows = statement.query((signed(id.as_u64()), after, rows::limit(limit)))?;
            let mut listed = Vec::new();
            while let Some(row) = rows.next()? {
                listed.push(rows::pattern(row, 0)?);
            }
            Ok(listed)
        })
    }

    pub(super) fn credentials(
        &mut self,
        ids: &[CredentialId],
    ) -> Result<Vec<StoredCredential<SealedBytes>>> {
        self.snapshot(|snapshot| {
            let mut statement = snapshot.prepare_cached(CREDENTIAL)?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let mut rows = statement.query([signed(id.as_u64())])?;
                if let Some(row) = rows.next()? {
                    found.extend(listed_credential(row)?);
                }
            }
            Ok(found)
        })
    }

    pub(super) fn list_credentials(
        &mut self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> Result<Vec<StoredCredential<SealedBytes>>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(CREDENTIALS)?;
            let after = after.map_or(-1, |id| signed(id.as_u64()));
            let mut rows = statement.query((after, rows::limit(limit)))?;
            let mut listed = Vec::new();
            while let Some(row) = rows.next()? {
                listed.extend(listed_credential(row)?);
            }
            Ok(listed)
        })
    }

    pub(super) fn document(
        &mut self,
        id: &DocumentId,
        now: i64,
    ) -> Result<Option<Document<SealedBytes>>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(DOCUMENT)?;
            let mut rows = statement.query((id.kind.as_str(), &*id.key, now))?;
            let row = rows.next()?;
            Ok(row.map(documents::read).transpose()?)
        })
    }

    pub(super) fn list_documents(
        &mut self,
        kind: &DocumentKind,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Result<Vec<Document<SealedBytes>>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(DOCUMENTS)?;
            let limit = rows::limit(limit);
            let mut rows = statement.query((kind.as_str(), after, now, limit))?;
            let mut listed = Vec::new();
            while let Some(row) = rows.next()? {
                listed.push(documents::read(row)?);
            }
            Ok(listed)
        })
    }

    pub(super) fn next_document_kind(&mut self, after: &str) -> Result<Option<DocumentKind>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(NEXT_KIND)?;
            let mut rows = statement.query([after])?;
            let row = rows.next()?;
            let kind: Option<String> = row.map(|row| row.get(0)).transpose()?;
            Ok(kind.map(DocumentKind::from))
        })
    }

    /// Several statements that see one state.
    pub(super) fn snapshot<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Step<T>,
    ) -> Result<T> {
        self.run(|connection| {
            work(&connection.transaction_with_behavior(TransactionBehavior::Deferred)?)
        })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("path", &self.path)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

fn listed_credential(row: &Row<'_>) -> Step<Option<StoredCredential<SealedBytes>>> {
    let id = CredentialId::from_u64(rows::number(row, CREDENTIAL_COLUMNS)?);
    let key_type = rows::text(row, CREDENTIAL_COLUMNS + 1)?;
    let key_type = KeyType::parse(key_type)
        .ok_or_else(|| Fault::Value(format!("{id} has the unknown key type {key_type:?}")))?;
    rows::credential(row, 0, id, key_type)
}

const HOST: &str = concat!(
    "SELECT ",
    host_columns!("h"),
    " FROM hosts h WHERE h.pattern = ?1"
);

const HOSTS: &str = concat!(
    "SELECT ",
    host_columns!("h"),
    ", h.pattern FROM hosts h WHERE h.pattern > ?1 ORDER BY h.pattern LIMIT ?2"
);

/// At most one of the columns holds an id, since a credential has one type.
const HOSTS_OF: &str = "
    SELECT pattern FROM hosts WHERE ecdsa = ?1 AND pattern > ?2
    UNION ALL SELECT pattern FROM hosts WHERE ed25519 = ?1 AND pattern > ?2
    UNION ALL SELECT pattern FROM hosts WHERE rsa = ?1 AND pattern > ?2
    ORDER BY pattern LIMIT ?3";

const CREDENTIAL: &str = concat!(
    "SELECT ",
    credential_columns!("c", "i"),
    ", c.id, c.key_type FROM credentials c LEFT JOIN issuers i ON i.id = c.issuer WHERE c.id = ?1"
);

const CREDENTIALS: &str = concat!(
    "SELECT ",
    credential_columns!("c", "i"),
    ", c.id, c.key_type FROM credentials c LEFT JOIN issuers i ON i.id = c.issuer
     WHERE c.id > ?1 ORDER BY c.id LIMIT ?2"
);

const DOCUMENT: &str = concat!(
    "SELECT ",
    documents::columns!(),
    " FROM documents WHERE kind = ?1 AND key = ?2 AND (expires IS NULL OR expires > ?3)"
);

const DOCUMENTS: &str = concat!(
    "SELECT ",
    documents::columns!(),
    " FROM documents WHERE kind = ?1 AND (?2 IS NULL OR key > ?2)
      AND (expires IS NULL OR expires > ?3) ORDER BY key LIMIT ?4"
);

const NEXT_KIND: &str = "SELECT kind FROM documents WHERE kind > ?1 ORDER BY kind LIMIT 1";

/// Whose plans a test reads.
#[cfg(test)]
pub(super) const INDEXED: [&str; 8] = [
    HOST,
    HOSTS,
    HOSTS_OF,
    CREDENTIAL,
    CREDENTIALS,
    DOCUMENT,
    DOCUMENTS,
    NEXT_KIND,
];
