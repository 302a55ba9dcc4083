//! Accounts of other tools, taken over with what their CAs allow them.

use sekisho_certs::store::{DocumentId, Precondition, Write};

use super::create::KEYS;
use super::{AccountError, Accounts};
use crate::acme::{Account, Ca, ForeignKey};

impl Accounts {
    /// Takes the account of this key into the catalog, where all servers use it:
    ///
    /// 1. The CA is asked for the account of the key.
    /// 2. An RSA key gives way to a fresh one, which is in the catalog before the CA is
    ///    told. The tool that has the old one can't use the account any more.
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
        let refused = |why: String| AccountError::Import(ca.name().into(), why.into());
        self.alone(ca, async {
            let there = self.stored(ca).await?;
            if let Some(there) = there.filter(|_| !replace) {
                return Err(refused(format!(
                    "the store has an account there already, {}; --replace puts this one in its \
                     place, and that one stays at the CA",
                    there.id()
                )));
            }
            let account = match key.p256() {
                Some(own) => ca.account_of(&own).await?,
                None => self.change_key(ca, key).await?,
            };
            let account = account.ok_or_else(|| {
                refused(
                    "the CA knows no account of this key; is it one of another CA, such as a \
                     staging environment?"
                        .to_owned(),
                )
            })?;
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

    /// Gives the account of a key a fresh key. None if the CA knows neither the key, nor the
    /// fresh one that an earlier call has saved.
    async fn change_key(
        &self,
        ca: &Ca,
        key: &ForeignKey,
    ) -> Result<Option<Account>, AccountError> {
        let id = import_id(ca);
        if let Some(url) = ca.account_url(key).await? {
            let fresh = self.saved(id.clone()).await?;
            ca.change_key(&url, key, &fresh).await?;
        }
        match self.sealer.document(&id).await? {
            Some(fresh) => Ok(ca.account_of(&fresh.bytes).await?),
            None => Ok(None),
        }
    }
}

fn import_id(ca: &Ca) -> DocumentId {
    DocumentId::new(KEYS, format!("{} import", ca.directory()))
}
