//! A private key in the clear, and whether it was proved.

use crate::credential::{Credential, CredentialId, Secret, StoredCredential};

/// A private key in the clear, as a load takes it.
///
/// A key is proved before it is sealed, and a seal is authenticated: only
/// opening one makes a proved key, which a load need not prove again.
#[derive(Clone, Debug)]
pub struct OpenKey {
    secret: Secret,
    proved: bool,
}

impl OpenKey {
    /// Takes a key from a store that others write: each load proves it.
    #[must_use]
    pub fn unproved(secret: Secret) -> Self {
        Self {
            secret,
            proved: false,
        }
    }

    /// Takes a key out of a seal of ours.
    pub(super) fn unsealed(secret: Secret) -> Self {
        Self {
            secret,
            proved: true,
        }
    }

    /// Takes a key for proved that no seal gave: for tests of the load.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn assumed(secret: Secret) -> Self {
        Self::unsealed(secret)
    }

    /// Returns the key: PKCS#8, SEC1 or PKCS#1 DER.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Tells whether its numbers are known to fit together.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.proved
    }
}

impl Credential {
    /// Converts to the form that a store takes. The key is in the clear:
    /// PKCS#8, or as a plain store keeps it.
    #[must_use]
    pub fn into_stored(self, id: CredentialId) -> StoredCredential<OpenKey> {
        let (credential, key) = self.into_parts(id).replace_key(());
        credential.with_key(OpenKey::unproved(key))
    }
}

impl StoredCredential<OpenKey> {
    /// Converts the credential to the form in which it is sealed.
    #[must_use]
    pub fn into_sealable(self) -> StoredCredential<Secret> {
        let (credential, key) = self.replace_key(());
        credential.with_key(key.secret)
    }
}
