//! Revocation (RFC 8555, section 7.6).

use sekisho_certs::store::Write;
use sekisho_certs::{Fence, LineageName, ToClaim};

use super::claimed::{CLAIM, removed};
use super::under_way::UnderWay;
use super::{Issuer, NoCertificate};
use crate::acme::RevocationReason;

impl Issuer {
    /// Revokes the certificate in use of a lineage, at the CA that has issued it. The
    /// next certificate gets a new key. With `reissue` a server orders it after a minute
    /// unless [`Issuer::issue`] did; else only that call does.
    ///
    /// # Errors
    /// [`NoCertificate`] has the words of all CAs that were asked.
    pub async fn revoke(
        &self,
        name: &LineageName,
        reason: Option<RevocationReason>,
        reissue: bool,
    ) -> Result<(), NoCertificate> {
        let failed = |why: String| NoCertificate::new(why, None);
        let catalog = self.sealer.catalog();
        let named = ToClaim::Named(vec![name.clone()]);
        let claimed = catalog.claim(named, &self.holder, CLAIM).await;
        let claimed = claimed.map_err(|error| self.no_store(&error))?;
        let lineage = self
            .lineage(name)
            .await
            .map_err(|error| self.no_store(&error))?;
        let mut lineage = lineage.ok_or_else(removed)?;
        let Some((_, claim)) = claimed.first() else {
            return Err(failed("another process works on it, try again".into()));
        };
        let ids = lineage.credential.as_slice();
        let found = catalog.credentials(ids).await;
        let current = found.map_err(|error| self.no_store(&error))?.pop();
        let leaf = current.as_ref().and_then(|one| one.chain.first());
        let leaf = leaf.ok_or_else(|| failed("it has no certificate".into()))?;
        self.revoke_at_any(leaf, reason).await.map_err(failed)?;
        lineage.due = reissue.then(|| self.clock.now() + HEAD_START);
        let mut state = UnderWay::read(lineage.order.as_ref());
        // The order may have the key of the certificate.
        (state.revoked, state.order) = (true, None);
        lineage.order = state.to_secret();
        lineage.claim = None;
        let put = Write::PutLineage(lineage, Fence::Epoch(claim.epoch));
        let written = self.sealer.write(vec![put]).await;
        written.map_err(|error| self.no_store(&error))?;
        Ok(())
    }

    /// Asks each CA: only the one that has issued the certificate knows it.
    async fn revoke_at_any(
        &self,
        leaf: &rustls_pki_types::CertificateDer<'_>,
        reason: Option<RevocationReason>,
    ) -> Result<(), String> {
        let mut refusals = Vec::new();
        for authority in self.authorities.all() {
            let account = match self.accounts.stored(&authority.ca).await {
                Ok(Some(account)) => account,
                // A CA without an account has issued nothing.
                Ok(None) => continue,
                Err(error) => {
                    refusals.push(error.to_string());
                    continue;
                }
            };
            match account.revoke(leaf, reason.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => refusals.push(error.to_string()),
            }
        }
        match refusals.is_empty() {
            true => Err("the store has no account at any of the CAs".into()),
            false => Err(refusals.join("; ")),
        }
    }
}

/// Seconds after which a server takes up what a command has left.
const HEAD_START: i64 = 60;
