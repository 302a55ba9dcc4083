//! Texts of DNS-01 (RFC 8555, section 8.4) in the zones that servers of the catalog answer
//! for.

use std::fmt;

use crate::credential::Secret;
use crate::seal::Sealer;
use crate::store::{Document, DocumentId, DocumentKind, Precondition, Result, StoreError, Write};

/// Text of a challenge at a name of a served zone. Several texts of one name are several
/// documents: those of a wildcard and of its parent do not disturb each other.
#[derive(Clone, PartialEq, Eq)]
pub struct Txt {
    /// Name in lower case, with its last dot.
    pub name: String,
    /// The text, which anybody may ask for.
    pub value: String,
}

impl Txt {
    /// Returns the operation that tells all servers of this text. `expires` is in seconds
    /// since the Unix epoch.
    #[must_use]
    pub fn write(&self, expires: i64) -> Write<Secret> {
        let bytes = Secret::new(self.value.clone().into_bytes());
        let mut document = Document::new(self.id(), bytes);
        document.expires = Some(expires);
        Write::PutDocument(document, Precondition::Any)
    }

    /// Returns the operation that removes this text, if it is there.
    #[must_use]
    pub fn remove(&self) -> Write<Secret> {
        Write::RemoveDocument(self.id(), Precondition::Any)
    }

    /// Lists the texts of a catalog. One that does not open is left out: it must not keep
    /// the others from being answered.
    pub(super) async fn list(sealer: &Sealer) -> Result<Vec<Self>> {
        let kind = DocumentKind::DNS_01;
        let listed = sealer.catalog().list_documents(&kind, None, MOST + 1).await?;
        if listed.len() > MOST {
            let why = format!("more than {MOST} challenges of DNS-01 are pending");
            return Err(StoreError::Refused(why.into()));
        }
        let mut texts = Vec::with_capacity(listed.len());
        for stored in listed {
            match sealer.open_document(stored).await {
                Ok(document) => texts.extend(Self::read(&document)),
                Err(StoreError::Corrupt(why)) => tracing::debug!(%why, "a text is left out"),
                Err(error) => return Err(error),
            }
        }
        Ok(texts)
    }

    fn read(document: &Document<Secret>) -> Option<Self> {
        let (name, _) = document.id.key.split_once(' ')?;
        let value = std::str::from_utf8(document.bytes.expose()).ok()?;
        Some(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }

    fn id(&self) -> DocumentId {
        let key = format!("{} {}", self.name, self.value);
        DocumentId::new(DocumentKind::DNS_01, key)
    }
}

impl fmt::Debug for Txt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Txt({})", self.name)
    }
}

/// Bound of a list: some MiB in memory. An order has 100 names at most.
const MOST: usize = 10_000;
