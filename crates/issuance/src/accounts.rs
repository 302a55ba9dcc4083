//! Accounts, one per CA for all servers of a catalog.
//!
//! The account with its private key is a sealed document; its key is the URL of the
//! CA's directory. Whoever makes or changes an account holds a lease, so that two
//! servers make one. A server that is killed meanwhile blocks the others for 60 s at
//! most, and the next one makes the same account: its key was saved before.

mod change;
mod create;
mod import;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::store::{Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{Clock, Lease, Sealer, StoreError, lock};
use tokio::time::{Instant, sleep};

use crate::acme::{self, Account, Ca, ExternalAccount, NewAccount};

/// Accounts of a catalog, each read or made with its first use.
#[derive(Debug)]
pub struct Accounts {
    sealer: Sealer,
    contact: Vec<String>,
    agree: bool,
    clock: Clock,
    /// By the URL of the directory.
    slots: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Slot>>>>,
}

/// State of an account in this process.
#[derive(Debug, Default)]
struct Slot {
    account: Option<Account>,
    /// Last failure and its time, for those who were waiting by then.
    failed: Option<(Instant, AccountError)>,
    /// True once the contact was compared with the configured one. Servers with
    /// different contacts would else change it back and forth for ever.
    is_aligned: bool,
}

/// Why there is no account.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AccountError {
    /// The CA refused it, or could not be reached.
    #[error(transparent)]
    Ca(#[from] acme::Error),
    /// The catalog failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process was at work on it for as long as this one waits.
    #[error(
        "{0}: another server has been making or changing the account for {secs} s",
        secs = PATIENCE.as_secs()
    )]
    Busy(Arc<str>),
    /// No server has made it.
    #[error("{0}: the store has no account at {1}; the first order makes one")]
    Absent(Arc<str>, Arc<str>),
    /// An account can't be taken over so.
    #[error("{0}: {1}")]
    Import(Arc<str>, Arc<str>),
}

impl Accounts {
    /// Makes accounts with this contact, of an operator who agrees to the terms of
    /// all CAs or does not; sends nothing.
    #[must_use]
    pub fn new(sealer: Sealer, contact: Vec<String>, agree: bool, clock: Clock) -> Self {
        Self {
            sealer,
            contact,
            agree,
            clock,
            slots: Mutex::default(),
        }
    }

    /// Returns the account:
    ///
    /// 1. from memory;
    /// 2. from the catalog; if its contact is not the configured one, the CA is told;
    /// 3. else makes it, or waits for another server that does.
    ///
    /// Only one caller per CA does 2 and 3; all who wait share its failure. A caller that
    /// goes away leaves them to the next one.
    ///
    /// # Errors
    /// [`AccountError`]; never [`AccountError::Absent`] or [`AccountError::Import`].
    pub async fn get(
        &self,
        ca: &Ca,
        external: Option<&ExternalAccount>,
    ) -> Result<Account, AccountError> {
        let asked = Instant::now();
        let slot = self.slot(ca);
        let mut slot = slot.lock().await;
        if let Some(account) = &slot.account {
            return Ok(account.clone());
        }
        if let Some((at, error)) = &slot.failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        let found = self.find_or_make(ca, external, !slot.is_aligned).await;
        match &found {
            Ok(account) => {
                slot.account = Some(account.clone());
                slot.is_aligned = true;
                slot.failed = None;
            }
            Err(error) => slot.failed = Some((Instant::now(), error.clone())),
        }
        found
    }

    /// Tells whether a request failed because the account was replaced or removed since
    /// it was read, as far as the catalog knows. [`Accounts::get`] then returns the
    /// present one, with which the request is worth repeating once.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn is_stale(
        &self,
        account: &Account,
        error: &acme::Error,
    ) -> Result<bool, AccountError> {
        if !error.doubts_account() {
            return Ok(false);
        }
        let is_it = |other: &Account| other.to_bytes() == account.to_bytes();
        let stored = self.stored(account.ca()).await?;
        if stored.as_ref().is_some_and(is_it) {
            return Ok(false);
        }
        let slot = self.slot(account.ca());
        let mut slot = slot.lock().await;
        if slot.account.as_ref().is_some_and(is_it) {
            slot.account = stored;
        }
        Ok(true)
    }

    /// Reads the account from the catalog; none if no server has made it.
    ///
    /// # Errors
    /// The catalog's failure, or that the document is no account.
    pub async fn stored(&self, ca: &Ca) -> Result<Option<Account>, AccountError> {
        Ok(self.read(ca).await?.map(|(account, _)| account))
    }

    async fn find_or_make(
        &self,
        ca: &Ca,
        external: Option<&ExternalAccount>,
        align: bool,
    ) -> Result<Account, AccountError> {
        let account = match self.stored(ca).await? {
            Some(account) => account,
            None => self.alone(ca, self.make(ca, external)).await?,
        };
        // Another server may have made it meanwhile.
        match align {
            true => Ok(self.align(account).await),
            false => Ok(account),
        }
    }

    /// Makes the account while holding the lease.
    async fn make(
        &self,
        ca: &Ca,
        external: Option<&ExternalAccount>,
    ) -> Result<Account, AccountError> {
        // Another server may have made it since the last look.
        if let Some(account) = self.stored(ca).await? {
            return Ok(account);
        }
        let new = NewAccount {
            contact: self.contact.clone(),
            agree: self.agree,
            external: external.cloned(),
        };
        let account = self.create(ca, &new).await?;
        tracing::info!(ca = ca.name(), account = account.id(), "account made");
        let saved = self.save(&account, Precondition::Absent).await;
        // Until the account is there, this key is the only one of the CA's account.
        if matches!(saved, Ok(()) | Err(StoreError::Conflict(_))) {
            self.forget_key(ca).await;
        }
        match saved {
            // The CA took longer than the lease, and another server was faster.
            Err(StoreError::Conflict(why)) => {
                let other = self.stored(ca).await?;
                other.ok_or_else(|| StoreError::Conflict(why).into())
            }
            saved => Ok(saved.map(|()| account)?),
        }
    }

    /// Writes the account. Tries again while the store is out of reach: the CA has
    /// this key already, and nobody else has it.
    async fn save(&self, account: &Account, expect: Precondition) -> Result<(), StoreError> {
        let until = Instant::now() + SAVING;
        loop {
            let document = Document::new(id(account.ca()), account.to_bytes());
            let write = Write::PutDocument(document, expect);
            match self.sealer.write(vec![write]).await {
                Err(error) if error.is_retryable() && Instant::now() < until => {
                    tracing::warn!(ca = account.ca().name(), %error, "account not saved: trying again");
                    sleep(POLL).await;
                }
                written => return written.map(drop),
            }
        }
    }

    /// Reads the account with the version of its document.
    async fn read(&self, ca: &Ca) -> Result<Option<(Account, u64)>, AccountError> {
        match self.sealer.document(&id(ca)).await? {
            None => Ok(None),
            Some(stored) => Ok(Some((ca.account(&stored.bytes)?, stored.version))),
        }
    }

    /// Waits for the lease, and works while holding it.
    async fn alone<T>(
        &self,
        ca: &Ca,
        work: impl Future<Output = Result<T, AccountError>>,
    ) -> Result<T, AccountError> {
        let until = Instant::now() + PATIENCE;
        let name = id(ca).to_string();
        let lease = loop {
            match Lease::take(&self.sealer, name.clone(), LEASE_TIME, &self.clock).await? {
                Some(lease) => break lease,
                None if Instant::now() < until => sleep(POLL).await,
                None => return Err(AccountError::Busy(ca.name().into())),
            }
        };
        let done = work.await;
        if let Err(error) = lease.release().await {
            tracing::debug!(ca = ca.name(), %error, "lease of the account not released");
        }
        done
    }

    fn slot(&self, ca: &Ca) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = lock(&self.slots);
        Arc::clone(slots.entry(ca.directory().to_owned()).or_default())
    }
}

/// Kind of the documents.
pub const KIND: DocumentKind = DocumentKind::new("acme-account");

/// Names the document; the lease is named likewise.
fn id(ca: &Ca) -> DocumentId {
    DocumentId::new(KIND, ca.directory().to_owned())
}

/// Time for the few requests that make or change an account. A CA that takes longer
/// may be asked by two servers; one of the accounts is then never used.
const LEASE_TIME: Duration = Duration::from_secs(60);
/// Wait for another process: the lease of one that was killed, and the work of the
/// next one.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause between two looks, and between two attempts of saving.
const POLL: Duration = Duration::from_millis(250);
/// Time for saving an account while the store is out of reach.
const SAVING: Duration = Duration::from_secs(30);
