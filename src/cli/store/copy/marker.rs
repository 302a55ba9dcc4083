//! Marker document of a copy: its source, and the position in the source's log.

use sekisho_certs::Secret;
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{CatalogId, Document, DocumentId, DocumentKind, LogId, LogPosition};

/// Marker of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) catalog: CatalogId,
    /// Position up to which the copy has the source's changes, or read the
    /// items later.
    pub(super) position: LogPosition,
}

impl Marker {
    pub(super) fn document(&self) -> Document<Secret> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&self.catalog.0);
        bytes.extend_from_slice(&self.position.log.0);
        bytes.extend_from_slice(&self.position.number.to_be_bytes());
        bytes.extend_from_slice(&self.position.mark.to_be_bytes());
        Document::new(ID, Secret::new(bytes))
    }

    /// Parses a marker; None if another version of this program wrote it.
    pub(super) fn read(document: &Document<Secret>) -> Option<Self> {
        let (format, bytes) = document.bytes.expose().split_first()?;
        let (catalog, bytes) = bytes.split_first_chunk()?;
        let (log, bytes) = bytes.split_first_chunk()?;
        let (number, mark) = bytes.split_first_chunk()?;
        let mark = mark.try_into().ok()?;
        (*format == FORMAT).then_some(Self {
            catalog: CatalogId(*catalog),
            position: LogPosition {
                log: LogId(*log),
                number: u64::from_be_bytes(*number),
                mark: u64::from_be_bytes(mark),
            },
        })
    }
}

/// Returns whether a document is not copied: the check value and the marker
/// belong to one store, challenges are over before the copy is used, and quotas
/// change with each order.
pub(super) fn stays(kind: &DocumentKind) -> bool {
    *kind == CHECK.kind || *kind == ID.kind || !kind.is_announced()
}

pub(super) const ID: DocumentId = DocumentId::known(DocumentKind::new("copy"), "from");
/// Format 1 had no mark.
const FORMAT: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let marker = Marker {
            catalog: CatalogId([3; 16]),
            position: LogPosition {
                log: LogId([5; 16]),
                number: u64::MAX - 7,
                mark: u64::MAX - 9,
            },
        };
        let document = marker.document();
        assert_eq!(Marker::read(&document), Some(marker));
        let bytes = document.bytes.expose();
        for cut in 0..bytes.len() {
            let bytes = Secret::new(bytes[..cut].to_vec());
            let document = Document {
                bytes,
                ..marker.document()
            };
            assert_eq!(Marker::read(&document), None, "{cut}");
        }
    }
}
