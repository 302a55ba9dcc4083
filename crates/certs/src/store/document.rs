//! Documents: small state that servers share.

use std::borrow::Cow;
use std::fmt;

/// Word that says what a document is for, such as `ticket-keys`.
///
/// Not an enum: a store may hold kinds of a later version, which a change of
/// the master key has to seal again too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKind(Cow<'static, str>);

impl DocumentKind {
    /// Names a kind that this program knows.
    #[must_use]
    pub const fn new(word: &'static str) -> Self {
        Self(Cow::Borrowed(word))
    }

    /// Challenges by host name, answered in a handshake (RFC 8737).
    pub const TLS_ALPN_01: Self = Self::new("challenge-tls-alpn-01");
    /// Challenges by token, answered over plain HTTP (RFC 8555, section 8.3).
    pub const HTTP_01: Self = Self::new("challenge-http-01");
    /// Texts by name, answered by the zones that servers serve (RFC 8555, section 8.4).
    pub const DNS_01: Self = Self::new("challenge-dns-01");
    /// Buckets of the limits of CAs.
    pub const ACME_QUOTA: Self = Self::new("acme-quota");
    /// [Leases](crate::Lease) by name.
    pub const LEASE: Self = Self::new("lease");

    /// Returns the stored form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether the log announces documents of this kind: neither challenges nor
    /// quotas nor leases. Nobody caches them, and a bulk run would push all else out of
    /// the log.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        let unannounced = [
            Self::ACME_QUOTA,
            Self::DNS_01,
            Self::HTTP_01,
            Self::LEASE,
            Self::TLS_ALPN_01,
        ];
        !unannounced.contains(self)
    }
}

impl From<&'static str> for DocumentKind {
    fn from(word: &'static str) -> Self {
        Self::new(word)
    }
}

/// Takes a kind as it is stored.
impl From<String> for DocumentKind {
    fn from(word: String) -> Self {
        Self(Cow::Owned(word))
    }
}

/// Kind and key, which together name one document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId {
    /// Kind: the purpose of the document.
    pub kind: DocumentKind,
    /// Key within the kind.
    pub key: Cow<'static, str>,
}

impl DocumentId {
    /// Names a document.
    pub fn new(kind: impl Into<DocumentKind>, key: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: kind.into(),
            key: key.into(),
        }
    }

    /// Names a document of this program, at compile time.
    #[must_use]
    pub const fn known(kind: DocumentKind, key: &'static str) -> Self {
        Self {
            kind,
            key: Cow::Borrowed(key),
        }
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}/{}", self.kind.as_str(), self.key)
    }
}

/// Content with the id that it is stored under. `B` is the form of the
/// content: [`Secret`], or [`SealedBytes`] in a catalog.
///
/// [`Secret`]: crate::credential::Secret
/// [`SealedBytes`]: crate::credential::SealedBytes
#[derive(Clone, Debug)]
pub struct Document<B> {
    /// Kind and key.
    pub id: DocumentId,
    /// The content.
    pub bytes: B,
    /// When the document is gone, seconds since the Unix epoch.
    pub expires: Option<i64>,
    /// Number of the change that wrote it. If it is not announced, the number of
    /// the last change or the version before plus 1, whichever is larger: each
    /// write makes the version grow, until the document is removed or expires.
    /// Ignored by a write.
    pub version: u64,
}

impl<B> Document<B> {
    /// Makes a document that is to be written and does not expire.
    #[must_use]
    pub fn new(id: DocumentId, bytes: B) -> Self {
        Self {
            id,
            bytes,
            expires: None,
            version: 0,
        }
    }

    /// Converts the document to one with its content in another form.
    #[must_use]
    pub fn with_bytes<C>(self, bytes: C) -> Document<C> {
        Document {
            id: self.id,
            bytes,
            expires: self.expires,
            version: self.version,
        }
    }
}
