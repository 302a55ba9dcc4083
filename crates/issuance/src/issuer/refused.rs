//! Names that admission refuses: their operator finds the reason at the host.

use sekisho_certs::store::Write;
use sekisho_certs::{
    Fence, HostName, HostRecord, LastError, Lineage, LineageName, Secret, StoreError,
};

use super::Issuer;

impl Issuer {
    /// Logs why a name gets no certificate. A host record's lineage keeps it, too. A name
    /// without a record leaves no row: clients choose such names.
    pub(super) async fn refused(&self, name: &HostName, record: Option<&HostRecord>, why: &str) {
        match self.refusals.allow() {
            Some(others) => tracing::info!(%name, why, others, "no certificate on first access"),
            None => tracing::debug!(%name, why, "no certificate on first access"),
        }
        if let Some(record) = record
            && let Err(error) = self.note_refusal(record, why).await
        {
            tracing::debug!(%name, %error, "the refusal was not stored");
        }
    }

    /// Stores a refusal, unless it is there, or the host has been admitted before.
    async fn note_refusal(&self, record: &HostRecord, why: &str) -> Result<(), StoreError> {
        let name = LineageName::from(&record.pattern);
        let text = format!("refused, {why}");
        match self.lineage(&name).await? {
            None => {
                let lineage = Lineage::new(record.tenant.clone(), [record.pattern.clone()]);
                let mut lineage = lineage.expect("a lineage of one name");
                self.set_refusal(&mut lineage, text);
                self.add(lineage).await?;
                Ok(())
            }
            Some(there) if there.is_refused() && !has_error(&there, &text) => {
                self.change(&name, |lineage| self.set_refusal(lineage, text))
                    .await
            }
            Some(_) => Ok(()),
        }
    }

    /// Makes the lineage of a name due that was refused before.
    pub(super) async fn admit_again(&self, name: &LineageName) -> Result<(), StoreError> {
        let admit = |lineage: &mut Lineage<Secret>| {
            lineage.due = Some(self.now());
            (lineage.attempts, lineage.last_error) = (0, None);
        };
        self.change(name, admit).await
    }

    fn set_refusal(&self, lineage: &mut Lineage<Secret>, text: String) {
        let at = self.now();
        lineage.due = None;
        lineage.attempts = 1;
        lineage.last_error = Some(LastError { at, text });
    }

    /// Changes the lineage of a refused name under its claim. Nothing happens if another
    /// process has it.
    async fn change(
        &self,
        name: &LineageName,
        change: impl FnOnce(&mut Lineage<Secret>),
    ) -> Result<(), StoreError> {
        let Some(claim) = self.claim(name).await? else {
            return Ok(());
        };
        // If the name was admitted, the claim may belong to an order of this process.
        let lineage = self.lineage(name).await?;
        let Some(mut lineage) = lineage.filter(Lineage::is_refused) else {
            return Ok(());
        };
        change(&mut lineage);
        lineage.claim = None;
        let put = Write::PutLineage(lineage, Fence::Epoch(claim.epoch));
        // If the claim was lost, another process has changed it.
        self.sealer.try_write(vec![put]).await.map(drop)
    }
}

fn has_error<S>(lineage: &Lineage<S>, text: &str) -> bool {
    let error = lineage.last_error.as_ref();
    error.is_some_and(|error| error.text == text)
}

#[cfg(test)]
mod tests {
    use super::super::claimed::tests::claimed;

    /// The refusal is noted late: meanwhile, this process works on the admitted name.
    #[tokio::test]
    async fn a_late_refusal_leaves_an_admitted_name_its_claim() {
        let (issuer, _, name, claim) = claimed().await;
        let refuse = |lineage: &mut _| issuer.set_refusal(lineage, "refused, late".into());
        issuer.change(&name, refuse).await.unwrap();
        let lineage = issuer.lineage(&name).await.unwrap().unwrap();
        let epoch = lineage.claim.map(|claim| claim.epoch);
        assert_eq!(epoch, Some(claim.epoch), "the claim is that of the work");
        assert_eq!(lineage.last_error, None);
    }
}
