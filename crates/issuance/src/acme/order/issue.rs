//! From answered challenges to the certificate.

use std::time::Duration;

use bytes::Bytes;
use instant_acme::OrderStatus;
use sekisho_certs::credential::validate::Dates;
use sekisho_certs::credential::{Credential, CredentialError, Date};
use sekisho_certs::host::HostPattern;
use tokio::time::{Instant, sleep};

use super::{Order, Wanted, listed};
use crate::acme::chain;
use crate::acme::error::{Error, Fault};
use crate::acme::key::CertificateKey;
use crate::acme::problem::Problem;

impl Order {
    /// Waits until the CA has validated all names. Looks at growing intervals, or when
    /// the CA says.
    ///
    /// # Errors
    /// [`Fault::Invalid`] says which names failed and why; [`Fault::Pending`] after
    /// `within`.
    pub async fn wait_ready(&mut self, within: Duration) -> Result<(), Error> {
        let is_over = |status| status != OrderStatus::Pending;
        let done = self.poll(within, is_over).await;
        done.map_err(|fault| self.at(fault, "validating"))
    }

    /// Asks for the certificate. Does nothing if that was done before: the CA holds on
    /// to the first key.
    ///
    /// # Errors
    /// [`Error`]; `orderNotReady` while names are not validated.
    pub async fn finalize(
        &mut self,
        key: &CertificateKey,
        names: &[HostPattern],
    ) -> Result<(), Error> {
        if matches!(self.status, OrderStatus::Processing | OrderStatus::Valid) {
            return Ok(());
        }
        let sent = match key.request(names) {
            Ok(request) => self.inner.finalize_csr(&request).await.map_err(Fault::from),
            Err(why) => Err(Fault::Malformed(why)),
        };
        self.status = self.inner.state().status;
        sent.map_err(|fault| self.at(fault, "finalizing"))
    }

    /// Waits until the certificate is issued, fetches it and checks it: key, names,
    /// chain and end.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the CA gave up, [`Fault::Pending`] after `within`,
    /// [`Fault::Certificate`] and [`Fault::Names`] if it can't be used.
    pub async fn certificate(
        &mut self,
        wanted: &Wanted<'_>,
        within: Duration,
    ) -> Result<Credential, Error> {
        let fetched = self.fetch(wanted, within).await;
        fetched.map_err(|fault| self.at(fault, "fetching the certificate of"))
    }

    /// Looks at the order until it is as wanted.
    async fn poll(
        &mut self,
        within: Duration,
        is_done: impl Fn(OrderStatus) -> bool,
    ) -> Result<(), Fault> {
        let until = Instant::now() + within;
        let mut pause = FIRST_PAUSE;
        loop {
            self.status = self.inner.refresh().await?.status;
            let asked = self.noted.take().retry_after;
            if self.status == OrderStatus::Invalid {
                return Err(Fault::Invalid(self.gave_up().await?.into()));
            }
            if is_done(self.status) {
                return Ok(());
            }
            let wait = asked.unwrap_or(pause).max(FIRST_PAUSE);
            if Instant::now() + wait > until {
                return Err(Fault::Pending(wait));
            }
            sleep(wait).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    /// Says why the order is invalid: the failed challenges, else its own error.
    async fn gave_up(&mut self) -> Result<Problem, Fault> {
        let mut failed = Vec::new();
        let mut authorizations = self.inner.authorizations();
        while let Some(handle) = authorizations.next().await {
            let handle = handle?;
            let name = handle.identifier().to_string();
            let errors = handle.challenges.iter();
            let errors = errors.filter_map(|challenge| challenge.error.as_ref());
            failed.extend(errors.map(|error| Problem::from(error).with_name(&name)));
        }
        if !failed.is_empty() {
            return Ok(Problem::join(failed));
        }
        let error = self.inner.state().error.as_ref().map(Problem::from);
        Ok(error.unwrap_or_else(|| Problem {
            detail: "the CA says that the order is invalid, and not why".into(),
            ..Problem::default()
        }))
    }

    async fn fetch(&mut self, wanted: &Wanted<'_>, within: Duration) -> Result<Credential, Fault> {
        self.poll(within, |status| status == OrderStatus::Valid)
            .await?;
        let url = self.inner.state().certificate.clone();
        let url = url.ok_or_else(|| Fault::Malformed("there is no certificate's URL".into()))?;
        let chain = self.preferred(&url, wanted.chain).await?;
        let key = wanted.key.expose();
        let credential = Credential::parse(&chain, key, Dates::Any)?;
        // A certificate that is not valid yet is taken: only this machine's clock can be wrong.
        if wanted.now > credential.not_after() {
            return Err(CredentialError::Expired(Date(credential.not_after())).into());
        }
        let has = |name: &&HostPattern| !credential.names().contains(name);
        let missing: Vec<_> = wanted.names.iter().filter(has).cloned().collect();
        match missing.is_empty() {
            true => Ok(credential),
            false => Err(Fault::Names(listed(&missing))),
        }
    }

    /// Fetches the chain that leads to this authority, else the default one.
    async fn preferred(&self, url: &str, authority: Option<&str>) -> Result<Bytes, Fault> {
        let (default, alternates) = self.chain(url).await?;
        let Some(authority) = authority else {
            return Ok(default);
        };
        if chain::leads_to(&default, authority) {
            return Ok(default);
        }
        for alternate in alternates {
            let (chain, _) = self.chain(&alternate).await?;
            if chain::leads_to(&chain, authority) {
                return Ok(chain);
            }
        }
        let ca = self.account.ca.name();
        tracing::warn!(
            ca,
            chain = authority,
            "preferred chain not offered: took the CA's default"
        );
        Ok(default)
    }

    /// Fetches a chain, and the URLs of its alternates. instant-acme reads none of
    /// these (RFC 8555, section 7.4.2), and an order's is its only signed read of any
    /// URL: it can't parse the answer, which was noted before.
    async fn chain(&self, url: &str) -> Result<(Bytes, Vec<String>), Fault> {
        let (session, noted) = self.account.session().await?;
        let read = session.order(url.to_owned()).await;
        let dropped = noted.take();
        match (dropped.chain, read) {
            (Some(chain), _) => Ok((chain, dropped.alternates)),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => Err(Fault::Malformed("it is an order, and no chain".into())),
        }
    }
}

/// Where the CA names no time. Some validate within it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
