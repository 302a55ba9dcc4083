//! Reading: every call is one read transaction of one connection.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior};

use super::fault::explain;
use super::find::find;
#[cfg(test)]
use super::lineages;
use super::rows::Step;
use super::statements::list;
use crate::catalog_row::{credential_columns, document_columns, host_columns};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::store::{Answer, Result};

/// Connection with its prepared statements, for one thread at a time.
pub(crate) struct StoreConnection {
    connection: Connection,
    path: PathBuf,
    /// Which of the files that lay at the path this one is.
    pub(super) generation: u64,
}

impl StoreConnection {
    pub(super) fn new(connection: Connection, path: &Path, generation: u64) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            generation,
        }
    }

    /// Reads with a connection whose fault gets the file's name.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&mut Connection) -> Step<T>) -> Result<T> {
        let path = &self.path;
        work(&mut self.connection)
            .map_err(|fault| fault.named(&path.display(), |error| explain(path, &error)))
    }

    /// Finds what answers for this name, and the position of that state.
    pub(super) fn find(&mut self, name: &HostName) -> Result<Answer<SealedBytes>> {
        let generation = self.generation;
        self.run(|connection| find(connection, generation, name))
    }

    /// Reads all rows of one statement.
    pub(super) fn list<T>(
        &mut self,
        text: &str,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Step<T>,
    ) -> Result<Vec<T>> {
        self.run(|connection| list(connection, text, values, read))
    }

    /// Reads the rows of one statement for each of these values.
    pub(super) fn list_each<T>(
        &mut self,
        text: &str,
        values: Vec<impl Params>,
        read: impl Fn(&Row<'_>) -> Step<T>,
    ) -> Result<Vec<T>> {
        self.snapshot(|snapshot| {
            let mut listed = Vec::with_capacity(values.len());
            for values in values {
                listed.extend(list(snapshot, text, values, &read)?);
            }
            Ok(listed)
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

impl fmt::Debug for StoreConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConnection")
            .field("path", &self.path)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

pub(super) const HOST: &str = concat!(
    "SELECT ",
    host_columns!(),
    ", h.pattern FROM hosts h WHERE h.pattern = ?1"
);

/// At most one of the columns holds an id, since a credential has one type.
pub(super) const HOSTS_OF: &str = "
    SELECT pattern FROM hosts WHERE ecdsa = ?1 AND pattern > ?2
    UNION ALL SELECT pattern FROM hosts WHERE ed25519 = ?1 AND pattern > ?2
    UNION ALL SELECT pattern FROM hosts WHERE rsa = ?1 AND pattern > ?2
    ORDER BY pattern LIMIT ?3";

pub(super) const CREDENTIAL: &str = concat!(
    "SELECT ",
    credential_columns!(),
    " FROM credentials c LEFT JOIN issuers i ON i.id = c.issuer WHERE c.id = ?1"
);

pub(super) const DOCUMENT: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM documents WHERE kind = ?1 AND key = ?2 AND (expires IS NULL OR expires > ?3)"
);

pub(super) const DOCUMENTS: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM documents WHERE kind = ?1 AND (?2 IS NULL OR key > ?2)
      AND (expires IS NULL OR expires > ?3) ORDER BY key LIMIT ?4"
);

pub(super) const NEXT_KIND: &str =
    "SELECT kind FROM documents WHERE kind > ?1 ORDER BY kind LIMIT 1";

/// Statements whose plans a test reads.
#[cfg(test)]
pub(super) fn indexed() -> [&'static str; 13] {
    [
        HOST,
        HOSTS_OF,
        CREDENTIAL,
        DOCUMENT,
        DOCUMENTS,
        NEXT_KIND,
        lineages::LINEAGE,
        lineages::LINEAGES_WITHOUT,
        lineages::LINEAGES_OF,
        lineages::LINEAGES,
        lineages::FAILING_LINEAGES,
        lineages::HELD,
        lineages::LONGEST_DUE,
    ]
}
