//! Changes as the rows of a catalog's log.

use std::borrow::Cow;

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

/// Reads a change from its columns. The error says which change is damaged, and how.
pub(crate) fn read(
    number: u64,
    subject: &str,
    kind: &str,
    key: &str,
    is_removed: bool,
) -> Result<Change, String> {
    let bad = |what: String| format!("change {number}: {what}");
    let subject = match subject {
        HOST => {
            let pattern = HostPattern::parse(key);
            Subject::Host(pattern.map_err(|why| bad(format!("host {key:?}: {why}")))?)
        }
        CREDENTIAL => Subject::Credential(key.parse().map_err(bad)?),
        DOCUMENT => Subject::Document(DocumentId::new(kind.to_owned(), key.to_owned())),
        other => return Err(bad(format!("of the unknown subject {other:?}"))),
    };
    let what = match is_removed {
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
