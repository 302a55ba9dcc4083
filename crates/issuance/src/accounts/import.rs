//! Accounts of other tools, taken over with what their CAs allow them.

use sekisho_certs::store::{DocumentId, Precondition, Write};

use super::create::KEYS;
use super::{AccountError, Accounts};
use crate::acme::{Account, Ca, ForeignKey};

impl Accounts {
    /// Takes the account of this key into the catalog, where all servers use it:
    ///
    /// 1. The CA is asked for the account of the key.
    /// 2. A key of another kind than P-256 gives way to a fresh one, which is in the catalog
    ///    before the CA is told. The tool that has the old one can't use the account any
    ///    more.
    /// 3. The account is written. With `replace` it takes the place of another one, which
    ///    stays at the CA.
    ///
    /// After a kill, the next call goes on: the CA then knows the fresh key alone.
    ///
    /// # Errors
    /// [`AccountError::Import`] says what to do.
    pub async fn import(
        &self,
        ca: &Ca,
        key: &ForeignKey,
        replace: bool,
    ) -> Result<Account, AccountError> {
        self.alone(ca, async {
            let there = self.stored(ca).await?;
            if let Some(there) = there.filter(|_| !replace) {
                let why = format!(
                    "the store has an account there already, {}; --replace puts this one in its \
                     place, and that one stays at the CA",
                    there.id()
                );
                return Err(AccountError::Import(ca.name().into(), why.into()));
            }
            let account = match (ca.account_url(key).await?, key.p256()) {
                (Some(_), Some(own)) => ca.account_of(&own).await?,
                (Some(url), None) => {
                    let fresh = self.saved(import_id(ca)).await?;
                    ca.change_key(&url, key, &fresh).await?;
                    ca.account_of(&fresh).await?
                }
                (None, _) => self.changed_before(ca).await?,
            };
            let expected = match replace {
                true => Precondition::Any,
                false => Precondition::Absent,
            };
            self.save(&account, expected).await?;
            let remove = Write::RemoveDocument(import_id(ca), Precondition::Any);
            if let Err(error) = self.sealer.write(vec![remove]).await {
                tracing::debug!(ca = ca.name(), %error, "the saved key of the account stays");
            }
            Ok(account)
        })
        .await
    }

    /// Returns the account of the fresh key that an earlier call has saved, if the CA has
    /// taken it.
    async fn changed_before(&self, ca: &Ca) -> Result<Account, AccountError> {
        if let Some(saved) = self.sealer.document(&import_id(ca)).await?
            && let Ok(account) = ca.account_of(&saved.bytes).await
        {
            return Ok(account);
        }
        let why = "the CA knows no account of this key; is it one of another CA, such as a staging \
                   environment? Say which with --ca";
        Err(AccountError::Import(ca.name().into(), why.into()))
    }
}

fn import_id(ca: &Ca) -> DocumentId {
    DocumentId::new(KEYS, format!("{} import", ca.directory()))
}
