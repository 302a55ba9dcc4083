//! The host record: what the operator says of one pattern.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::credential::{ClientCa, CredentialId, KeyType};
use crate::host::HostPattern;
use crate::origin::Origin;

/// Record that a catalog holds about one pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Pattern that the record answers for.
    pub pattern: HostPattern,
    /// Owner of the host.
    pub tenant: Tenant,
    /// How requests are answered; none for the server's own default.
    pub site: Option<Site>,
    /// The page that answers in the place of the site, while the operator suspends the
    /// host. Nothing that a tenant may write changes it.
    pub suspended: Option<Site>,
    /// Policy that handshakes must meet.
    pub tls: TlsPolicy,
    /// A disabled host is answered like an absent one, and still hides the
    /// wildcard above it.
    pub disabled: bool,
    /// Credentials that the host is served with.
    pub references: References,
    /// The number of the change that wrote it; 0 before the first write. What
    /// stands here is ignored by a write.
    pub version: u64,
    /// Source that brought the record. The answer to a lookup may lack it.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// Parts of the stored record that can't be read; none for a sound one. The tenant
    /// and the policy are then not those of the host: lists show it, a lookup of it
    /// fails, and no write takes it.
    #[serde(skip)]
    pub unreadable: Option<Arc<str>>,
}

impl HostRecord {
    /// Makes an enabled record with neither site nor credential.
    #[must_use]
    pub fn new(pattern: HostPattern) -> Self {
        Self {
            pattern,
            tenant: Tenant::default(),
            site: None,
            suspended: None,
            tls: TlsPolicy::default(),
            disabled: false,
            references: References::default(),
            version: 0,
            origin: None,
            unreadable: None,
        }
    }

    /// Returns the document that answers requests: the page of a suspension before the site.
    #[must_use]
    pub fn site_in_effect(&self) -> Option<&Site> {
        self.suspended.as_ref().or(self.site.as_ref())
    }
}

/// The customer who owns hosts. The empty name is the operator's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "&str")]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Takes any text of up to 128 bytes without control characters.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(name: &str) -> Result<Self, String> {
        if name.len() > 128 {
            return Err(format!(
                "a tenant's name has at most 128 bytes, this one {}",
                name.len()
            ));
        }
        if name.chars().any(char::is_control) {
            return Err("a tenant's name must not hold control characters".into());
        }
        Ok(Self(name.into()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Tenant {
    type Error = String;

    fn try_from(name: &str) -> Result<Self, String> {
        Self::parse(name)
    }
}

/// How requests are answered: a JSON document that only the server reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Version of the document's format.
    pub format: u32,
    /// The document.
    pub json: Arc<str>,
}

impl Site {
    /// Format of documents whose stored number is none. No version reads it: such a
    /// row fails its own host, not a list of hosts.
    pub const NO_FORMAT: u32 = u32::MAX;
}

/// Demands on a handshake that reaches the host. Two hosts share a connection
/// only under equal policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "&str")]
pub struct TlsPolicy {
    /// The lowest version that clients may use.
    pub min: TlsVersion,
    /// Clients show a certificate that this CA issued; none asks for no certificate.
    pub client_ca: Option<Arc<ClientCa>>,
    /// Clients may show none. One that is shown must be of the client CA all the same.
    /// Always false without a client CA.
    pub client_optional: bool,
}

impl TlsPolicy {
    /// Returns the stored form, one text: the version, then the client CA. Programs
    /// that know only versions refuse the text of a policy with a client CA.
    #[must_use]
    pub fn to_text(&self) -> Cow<'static, str> {
        let min = self.min.as_str();
        let Some(ca) = &self.client_ca else {
            return min.into();
        };
        let demand = match self.client_optional {
            false => CLIENT_CA,
            true => OPTIONAL_CLIENT_CA,
        };
        format!("{min} {demand}\n{}", ca.pem()).into()
    }

    /// Reads the stored form; none for a policy this version does not know.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Most texts are a version alone.
        if let Some(min) = TlsVersion::parse(text) {
            return Some(min.into());
        }
        let (line, pem) = text.split_once('\n')?;
        let (min, demand) = line.split_once(' ')?;
        let client_optional = match demand {
            CLIENT_CA => false,
            OPTIONAL_CLIENT_CA => true,
            _ => return None,
        };
        Some(Self {
            min: TlsVersion::parse(min)?,
            client_ca: Some(Arc::new(ClientCa::parse(pem)?)),
            client_optional,
        })
    }
}

/// Makes a policy without a client CA.
impl From<TlsVersion> for TlsPolicy {
    fn from(min: TlsVersion) -> Self {
        Self {
            min,
            ..Self::default()
        }
    }
}

impl Serialize for TlsPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl TryFrom<&str> for TlsPolicy {
    type Error = &'static str;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::parse(text).ok_or("the TLS policy is not known")
    }
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// TLS 1.2 or 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl TlsVersion {
    /// Returns the stored and shown form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    /// Reads the stored form; none for a version that is not served.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tls12, Self::Tls13]
            .into_iter()
            .find(|version| version.as_str() == text)
    }
}

/// Demands between version and PEM in [`TlsPolicy::to_text`].
const CLIENT_CA: &str = "client-ca";
const OPTIONAL_CLIENT_CA: &str = "optional-client-ca";

/// At most one credential per key type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct References([Option<CredentialId>; KeyType::ALL.len()]);

impl References {
    /// Returns the credential of that key type.
    #[must_use]
    pub fn of(&self, key_type: KeyType) -> Option<CredentialId> {
        self.0[key_type as usize]
    }

    /// Points at another credential of that key type, or at none. Returns
    /// what stood there.
    pub fn set(&mut self, key_type: KeyType, id: Option<CredentialId>) -> Option<CredentialId> {
        std::mem::replace(&mut self.0[key_type as usize], id)
    }

    /// Lists the references in the order of preference.
    pub fn iter(&self) -> impl Iterator<Item = (KeyType, CredentialId)> + '_ {
        KeyType::ALL
            .into_iter()
            .filter_map(|key_type| Some((key_type, self.of(key_type)?)))
    }

    /// Tells whether no credential is referred to.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
