//! Changes as the rows of a catalog's log.

use std::borrow::Cow;

use crate::catalog_row::{self, CatalogRow, Step};
use crate::fault::Fault;
use sekisho_certs::host::HostPattern;
use sekisho_certs::store::{Change, DocumentId, Subject, What};

/// Returns the columns `subject`, `kind` and `key`.
pub(crate) fn columns(subject: &Subject) -> (&'static str, &str, Cow<'_, str>) {
    match subject {
        Subject::Host(pattern) => (HOST, "", pattern.as_str().into()),
        Subject::Credential(id) => (CREDENTIAL, "", id.to_string().into()),
        Subject::Document(id) => (DOCUMENT, id.kind.as_str(), (&*id.key).into()),
    }
}

/// Reads a change from the columns `number`, `subject`, `kind`, `key` and `removed`,
/// beginning at `first`. The error says which change is damaged, and how.
pub(crate) fn read<R: CatalogRow>(row: &R, first: usize) -> Step<Change, R> {
    let number = catalog_row::number(row, first)?;
    let bad = |what: String| Fault::Value(format!("change {number}: {what}"));
    let key = catalog_row::text(row, first + 3)?;
    let subject = match catalog_row::text(row, first + 1)? {
        HOST => {
            let pattern = HostPattern::parse(key);
            Subject::Host(pattern.map_err(|why| bad(format!("host {key:?}: {why}")))?)
        }
        CREDENTIAL => Subject::Credential(key.parse().map_err(bad)?),
        DOCUMENT => {
            let kind = catalog_row::text(row, first + 2)?.to_owned();
            Subject::Document(DocumentId::new(kind, key.to_owned()))
        }
        other => return Err(bad(format!("of the unknown subject {other:?}"))),
    };
    let what = match row.flag(first + 4)? {
        true => What::Removed,
        false => What::Put,
    };
    Ok(Change {
        number,
        subject,
        what,
    })
}

// Words of the column `subject`.
const HOST: &str = "host";
const CREDENTIAL: &str = "credential";
const DOCUMENT: &str = "document";
