//! Accounts (RFC 8555, section 7.3).

mod create;
mod foreign;
mod import;

use std::fmt;

use instant_acme::{AccountCredentials, Key, RevocationReason, RevocationRequest};
use rustls_pki_types::CertificateDer;
use sekisho_certs::credential::Secret;
use serde::{Deserialize, Serialize};

pub use foreign::ForeignKey;

use super::ca::Ca;
use super::error::{Error, Fault};
use super::exchange::{Exchange, Noted};

/// Account at a CA. The CA knows it by its key: whoever has the key can order and
/// revoke in its name.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) ca: Ca,
    id: String,
    contact: Vec<String>,
    credentials: Secret,
}

/// Content of a new account.
#[derive(Clone, Debug, Default)]
pub struct NewAccount {
    /// URIs, such as `mailto:ops@example.com`, at which the CA can warn.
    pub contact: Vec<String>,
    /// True if the operator agrees to [`super::Meta::terms_of_service`].
    pub agree: bool,
    /// Account of another kind at the CA that this one is bound to.
    pub external: Option<ExternalAccount>,
}

/// External account (RFC 8555, section 7.3.4).
#[derive(Clone, Debug)]
pub struct ExternalAccount {
    /// Key identifier.
    pub id: String,
    /// MAC key, base64url text as the CA gave it.
    pub key: Secret,
}

impl ExternalAccount {
    /// Checks the form of the key; whether the CA takes it shows with the account.
    ///
    /// # Errors
    /// Says what is wrong, without the key.
    pub fn check(&self) -> Result<(), String> {
        create::mac_key(self).map(drop)
    }
}

impl Ca {
    /// Makes an account with a fresh key. The caller saves [`Account::to_bytes`]
    /// before it uses the account. A kill between the CA's answer and the saving
    /// leaves an account that nobody uses: see [`Ca::create_account_of`].
    ///
    /// # Errors
    /// [`Fault::Setting`] names `agree`, `eab_id` or `eab_key`.
    pub async fn create_account(&self, new: &NewAccount) -> Result<Account, Error> {
        let account = self.create(new).await;
        account.map_err(|fault| fault.at(&self.name, "creating an account"))
    }

    /// Makes an account with this key ([`Account::fresh_key`]), without an external one.
    /// A CA that has an account of the key returns that one (RFC 8555, section 7.3.1): a
    /// caller that has saved the key repeats this after a kill. The CA is told the
    /// contact afterwards; if it refuses that, the account has none.
    ///
    /// # Errors
    /// As [`Ca::create_account`].
    pub async fn create_account_of(
        &self,
        key: &Secret,
        new: &NewAccount,
    ) -> Result<Account, Error> {
        let account = self.create_of(key, new).await;
        account.map_err(|fault| fault.at(&self.name, "creating an account"))
    }

    /// Takes an account that [`Account::to_bytes`] gave; sends nothing.
    ///
    /// # Errors
    /// If the bytes are none, or of an account at another CA.
    pub fn account(&self, bytes: &Secret) -> Result<Account, Error> {
        let account = Account::from_bytes(self, bytes);
        account.map_err(|fault| fault.at(&self.name, "reading the account"))
    }
}

impl Account {
    /// Makes a key for [`Ca::create_account_of`], PKCS#8.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn fresh_key() -> Result<Secret, String> {
        let (_, key) = Key::generate_pkcs8().map_err(|error| error.to_string())?;
        Ok(Secret::new(key.secret_pkcs8_der().to_vec()))
    }

    /// Returns the account's URL, which names it at the CA and in CAA records
    /// (RFC 8657).
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the URIs that were last given to the CA: not every CA shows them.
    #[must_use]
    pub fn contact(&self) -> &[String] {
        &self.contact
    }

    /// Returns the CA.
    #[must_use]
    pub fn ca(&self) -> &Ca {
        &self.ca
    }

    /// Returns the account with its private key, for [`Ca::account`].
    #[must_use]
    pub fn to_bytes(&self) -> Secret {
        self.credentials.clone()
    }

    /// Asks the CA whether it knows the account and takes its key.
    ///
    /// # Errors
    /// [`Error::doubts_account`] tells whether it does not.
    pub async fn check(&self) -> Result<(), Error> {
        let done = async {
            let credentials = self.parsed()?;
            let key = credentials.private_key();
            let key = (
                Key::from_pkcs8_der(key.clone_key())?,
                key.clone_key().into(),
            );
            let (exchange, _) = Exchange::new(&self.ca.transport);
            let builder = instant_acme::Account::builder_with_http(exchange);
            let known = builder.from_key(key, self.ca.directory().to_owned());
            known.await.map(drop)?;
            Ok(())
        };
        done.await
            .map_err(|fault| self.at(fault, "asking for the account"))
    }

    /// Replaces the URIs at which the CA can warn. The caller saves
    /// [`Account::to_bytes`] of the returned account.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_contact(&self, contact: &[String]) -> Result<Self, Error> {
        let uris: Vec<_> = contact.iter().map(String::as_str).collect();
        let done = async {
            let (account, _) = self.session().await?;
            account.update_contacts(&uris).await?;
            Self::of(&self.ca, &self.id, contact.to_vec(), &self.parsed()?)
        };
        done.await
            .map_err(|fault| self.at(fault, "changing the contact"))
    }

    /// Gives the account a fresh key (RFC 8555, section 7.3.5). The old key is worth
    /// nothing from then on. The caller saves [`Account::to_bytes`] of the returned
    /// account at once: instant-acme makes the key itself, so that a kill before the
    /// saving loses the account.
    ///
    /// # Errors
    /// [`Error`]; the old key holds on, unless the CA's answer was lost.
    pub async fn rotate(&self) -> Result<Self, Error> {
        let done = async {
            let (mut account, _) = self.session().await?;
            let credentials = account.update_key().await?;
            Self::of(&self.ca, &self.id, self.contact.clone(), &credentials)
        };
        done.await
            .map_err(|fault| self.at(fault, "replacing the account's key"))
    }

    /// Ends the account for ever (RFC 8555, section 7.3.6). Certificates stay valid.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn deactivate(&self) -> Result<(), Error> {
        let done = async {
            let (account, _) = self.session().await?;
            Ok(account.deactivate().await?)
        };
        done.await
            .map_err(|fault| self.at(fault, "deactivating the account"))
    }

    /// Revokes a certificate that this account ordered (RFC 8555, section 7.6). One
    /// that is revoked already counts as done.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn revoke(
        &self,
        certificate: &CertificateDer<'_>,
        reason: Option<RevocationReason>,
    ) -> Result<(), Error> {
        let done = async {
            let (account, _) = self.session().await?;
            let request = RevocationRequest {
                certificate,
                reason,
            };
            Ok(account.revoke(&request).await?)
        };
        let done = done
            .await
            .map_err(|fault| self.at(fault, "revoking a certificate"));
        match done {
            Err(error) if error.fault.is_one_of(&["alreadyRevoked"]) => Ok(()),
            done => done,
        }
    }

    /// Returns what speaks for the account, and what it notes of answers. Each has its
    /// own notes, so that only one order uses them.
    pub(super) async fn session(&self) -> Result<(instant_acme::Account, Noted), Fault> {
        let (exchange, noted) = Exchange::new(&self.ca.transport);
        let builder = instant_acme::Account::builder_with_http(exchange);
        Ok((builder.from_credentials(self.parsed()?).await?, noted))
    }

    fn parsed(&self) -> Result<AccountCredentials, Fault> {
        Ok(serde_json::from_slice(self.credentials.expose())?)
    }

    pub(super) fn at(&self, fault: Fault, step: impl fmt::Display) -> Error {
        fault.at(&self.ca.name, step)
    }

    fn of(
        ca: &Ca,
        id: &str,
        contact: Vec<String>,
        credentials: &AccountCredentials,
    ) -> Result<Self, Fault> {
        let bytes = serde_json::to_vec(&Stored {
            credentials,
            contact: &contact,
        })?;
        Ok(Self {
            ca: ca.clone(),
            id: id.to_owned(),
            contact,
            credentials: Secret::new(bytes),
        })
    }

    fn from_bytes(ca: &Ca, bytes: &Secret) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Head {
            id: String,
            directory: String,
            #[serde(default)]
            contact: Vec<String>,
        }
        let damaged = |error| Fault::Malformed(format!("the stored account is damaged: {error}"));
        let head: Head = serde_json::from_slice(bytes.expose()).map_err(damaged)?;
        let credentials = serde_json::from_slice(bytes.expose()).map_err(damaged)?;
        if head.directory != ca.directory() {
            let why = format!("this account is one of {}", head.directory);
            return Err(Fault::Setting {
                key: "directory",
                why,
            });
        }
        Self::of(ca, &head.id, head.contact, &credentials)
    }
}

/// Form of [`Account::to_bytes`].
#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    credentials: &'a AccountCredentials,
    contact: &'a [String],
}
