//! Changes of an account: its contact, its key, its end.

use sekisho_certs::store::{Precondition, Write};

use super::{AccountError, Accounts, id};
use crate::acme::{self, Account, Ca};

impl Accounts {
    /// Gives the account a fresh key and saves it. Servers that still use the old one
    /// are refused by the CA, and read the account again ([`Accounts::is_stale`]).
    ///
    /// # Errors
    /// [`AccountError`]. A crash between the CA's answer and the saving loses the
    /// account; certificates stay valid.
    pub async fn rotate(&self, ca: &Ca) -> Result<Account, AccountError> {
        self.alone(ca, async {
            let account = self.expected(ca).await?;
            let rotated = account.rotate().await?;
            // Whatever stands there by now: the CA takes no other key.
            self.save(&rotated, Precondition::Any).await?;
            Ok(rotated)
        })
        .await
    }

    /// Ends the account at the CA for ever and removes it from the catalog; the next
    /// order makes another one. Returns the CA's words if it refused the account, as
    /// after a crash in [`Accounts::rotate`]: the account is then removed all the
    /// same.
    ///
    /// # Errors
    /// [`AccountError`]; the account is then still in the catalog.
    pub async fn deactivate(&self, ca: &Ca) -> Result<Option<acme::Error>, AccountError> {
        self.alone(ca, async {
            let refused = match self.expected(ca).await?.deactivate().await {
                Err(error) if error.doubts_account() => Some(error),
                ended => ended.map(|()| None)?,
            };
            let remove = Write::RemoveDocument(id(ca), Precondition::Any);
            self.sealer.write(vec![remove]).await?;
            Ok(refused)
        })
        .await
    }

    /// Tells the CA the configured contact, if the account has another one. A failure
    /// is logged: certificates don't depend on it.
    pub(super) async fn align(&self, account: Account) -> Account {
        if account.contact() == self.contact {
            return account;
        }
        let name = account.ca().name();
        match self.set_contact(account.ca()).await {
            Ok(changed) => {
                tracing::info!(ca = name, contact = ?self.contact, "contact of the account changed");
                changed
            }
            Err(error) => {
                tracing::warn!(ca = name, %error, "contact of the account not changed");
                account
            }
        }
    }

    async fn set_contact(&self, ca: &Ca) -> Result<Account, AccountError> {
        self.alone(ca, async {
            let stored = self.read(ca).await?;
            let (account, version) = stored.ok_or_else(|| absent(ca))?;
            let changed = account.set_contact(&self.contact).await?;
            // Never over a fresh key, should the lease have ended.
            let expect = Precondition::Version(version);
            self.save(&changed, expect).await?;
            Ok(changed)
        })
        .await
    }

    async fn expected(&self, ca: &Ca) -> Result<Account, AccountError> {
        self.stored(ca).await?.ok_or_else(|| absent(ca))
    }
}

fn absent(ca: &Ca) -> AccountError {
    AccountError::Absent(ca.name().into(), ca.directory().into())
}
