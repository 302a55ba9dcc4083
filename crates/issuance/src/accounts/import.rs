//! Accounts of other tools, taken over with what their CAs allow them.

use sekisho_certs::store::Precondition;

use super::{AccountError, Accounts};
use crate::acme::{Account, Ca, ForeignKey};

impl Accounts {
    /// Takes the account of this key into the catalog, where all servers use it. A key that
    /// the catalog can't have gives way to a fresh one, which is in the catalog before the CA
    /// is asked: after a kill, the next call goes on with that. The tool that has the old one
    /// can't use the account any more. With `replace`, the account takes the place of another
    /// one, which stays at the CA.
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
            let own = match key.p256() {
                Some(own) => own,
                None => {
                    let fresh = self.saved_key(ca).await?;
                    ca.change_key(key, &fresh).await?;
                    fresh
                }
            };
            let account = ca.account_of(&own).await?;
            let account = account.ok_or_else(|| refused(UNKNOWN.to_owned()))?;
            let expected = match replace {
                true => Precondition::Any,
                false => Precondition::Absent,
            };
            self.save(&account, expected).await?;
            self.forget_key(ca).await;
            Ok(account)
        })
        .await
    }
}

const UNKNOWN: &str = "the CA knows no account of this key; is it one of another CA, such as a \
                       staging environment?";
