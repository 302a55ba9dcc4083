//! Revocation (RFC 8555, section 7.6).

use sekisho_certs::store::Write;
use sekisho_certs::{Fence, Lineage, LineageName, Secret};

use super::claimed::removed;
use super::held::Held;
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
        let claimed = self.claim(name).await;
        let claim = claimed.map_err(|error| self.no_store(&error))?;
        let lineage = self.lineage(name).await;
        let lineage = lineage.map_err(|error| self.no_store(&error))?;
        let mut lineage = lineage.ok_or_else(removed)?;
        let Some(claim) = claim else {
            let why = "another process works on it, try again";
            return Err(NoCertificate::new(why, None));
        };
        let held = Held::new(&claim);
        let done = tokio::select! {
            done = self.revoke_claimed(&mut lineage, &held, reason, reissue) => done,
            why = self.keep_claim(name, &held) => Err(NoCertificate::new(why, None)),
        };
        held.end().await;
        lineage.claim = None;
        let put = Write::PutLineage(lineage, Fence::Epoch(claim.epoch));
        let written = self.sealer.write(vec![put]).await;
        done?;
        written.map_err(|error| self.no_store(&error))?;
        Ok(())
    }

    /// Revokes the certificate of a claimed lineage. That the next one gets another key
    /// is saved before the CA is asked: its answer may be lost.
    async fn revoke_claimed(
        &self,
        lineage: &mut Lineage<Secret>,
        held: &Held,
        reason: Option<RevocationReason>,
        reissue: bool,
    ) -> Result<(), NoCertificate> {
        let failed = |why: String| NoCertificate::new(why, None);
        let ids = lineage.credential.as_slice();
        let found = self.sealer.catalog().credentials(ids).await;
        let current = found.map_err(|error| self.no_store(&error))?.pop();
        let leaf = current.as_ref().and_then(|one| one.chain.first());
        let leaf = leaf.ok_or_else(|| failed("it has no certificate".into()))?;
        let before = lineage.order.clone();
        let mut state = UnderWay::read(before.as_ref());
        // The order may have the key of the certificate.
        state.revoked = true;
        let dropped = state.order.take().filter(|saved| saved.key.is_none());
        lineage.order = state.to_secret();
        let put = Write::PutLineage(lineage.clone(), Fence::Epoch(held.epoch));
        let written = self.sealer.write(vec![put]).await;
        written.map_err(|error| self.no_store(&error))?;
        let issued_by = lineage.issued_by.as_deref();
        let revoked = self.revoke_at_any(leaf, reason, issued_by).await;
        if revoked.as_ref().is_err_and(|not| not.is_clear) {
            // The certificate is renewed as before.
            lineage.order = before;
        } else if let Some(saved) = &dropped {
            self.give_back(saved).await;
        }
        revoked.map_err(|not| failed(not.why))?;
        lineage.due = reissue.then(|| self.now() + HEAD_START);
        // The failures are those of a certificate that ends here.
        (lineage.attempts, lineage.last_error) = (0, None);
        Ok(())
    }

    /// Asks each CA, first the one that has issued the certificate: only that one knows
    /// it. Which one it was is not always known, and an older version may have renewed it
    /// elsewhere.
    async fn revoke_at_any(
        &self,
        leaf: &rustls_pki_types::CertificateDer<'_>,
        reason: Option<RevocationReason>,
        issued_by: Option<&str>,
    ) -> Result<(), NotRevoked> {
        let (mut refusals, mut is_clear) = (Vec::new(), true);
        let mut authorities: Vec<_> = self.authorities.all().iter().collect();
        authorities.sort_by_key(|authority| Some(authority.ca.directory()) != issued_by);
        for authority in authorities {
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
                Err(error) => {
                    is_clear &= error.problem().is_some();
                    refusals.push(error.to_string());
                }
            }
        }
        let why = match refusals.is_empty() {
            true => "the store has no account at any of the CAs".into(),
            false => refusals.join("; "),
        };
        Err(NotRevoked { why, is_clear })
    }
}

/// Revocation that no CA has confirmed.
struct NotRevoked {
    why: String,
    /// True if each CA has refused it. Else one may have done it.
    is_clear: bool,
}

/// Seconds after which a server takes up what a command has left.
const HEAD_START: i64 = 60;
