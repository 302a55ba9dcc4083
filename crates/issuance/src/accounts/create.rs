//! Account at the CA, whose key is saved before.

use sekisho_certs::store::{Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{Secret, StoreError};

use super::{AccountError, Accounts};
use crate::acme::{Account, Ca, NewAccount};

impl Accounts {
    /// Makes the account at the CA. One without an external account has a key that is in
    /// the catalog before the CA is asked: after a kill the CA returns the same account.
    pub(super) async fn create(&self, ca: &Ca, new: &NewAccount) -> Result<Account, AccountError> {
        if new.external.is_some() {
            return Ok(ca.create_account(new).await?);
        }
        let key = self.saved_key(ca).await?;
        match ca.create_account_of(&key, new).await {
            // Some CAs take no account without a contact, which that request can't say.
            Err(error)
                if matches!(error.fault.status(), Some(400..=403)) && !new.contact.is_empty() =>
            {
                Ok(ca.create_account(new).await?)
            }
            made => Ok(made?),
        }
    }

    /// Removes the key that was saved for a new account: the account has it.
    pub(super) async fn forget_key(&self, ca: &Ca) {
        let remove = Write::RemoveDocument(key_id(ca), Precondition::Any);
        if let Err(error) = self.sealer.write(vec![remove]).await {
            tracing::debug!(ca = ca.name(), %error, "the saved key of the account stays");
        }
    }

    /// Returns the key that an earlier attempt has saved, or saves one.
    pub(super) async fn saved_key(&self, ca: &Ca) -> Result<Secret, StoreError> {
        let id = key_id(ca);
        if let Some(saved) = self.sealer.document(&id).await? {
            return Ok(saved.bytes);
        }
        let key = Account::fresh_key().map_err(|why| StoreError::Unavailable(why.into()))?;
        let document = Document::new(id, key.clone());
        let put = Write::PutDocument(document, Precondition::Absent);
        self.sealer.write(vec![put]).await?;
        Ok(key)
    }
}

fn key_id(ca: &Ca) -> DocumentId {
    DocumentId::new(KIND, ca.directory().to_owned())
}

/// Kind of the documents with keys of accounts that are being made.
const KIND: DocumentKind = DocumentKind::new("acme-account-key");
