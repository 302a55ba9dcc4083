//! The check value: a document that tells a wrong master key, and which key
//! seals. Whoever seals does it under the key that the check value is sealed
//! under; replacing it is how keys are changed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Sealed;
use super::secrets::place;
use crate::credential::{Protected, Secret};
use crate::seal::KeyRing;
use crate::store::{
    CatalogId, ChangePage, Document, Expect, LogId, Result, StoreError, Subject, Write,
};

/// What the check value was when it was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The key that it is sealed under.
    pub(super) key: u32,
    pub(super) version: u64,
}

impl Check {
    /// Makes a batch conflict if another key seals by then.
    pub(super) fn require(self) -> Write {
        Write::Require {
            kind: KIND.to_owned(),
            key: String::new(),
            expect: Expect::Version(self.version),
        }
    }
}

/// What this process knows of the check value.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    check: Option<Check>,
    /// The log that was last seen.
    log: Option<LogId>,
    /// It may be another by now.
    stale: bool,
    /// The key that seals and was said to be missing.
    missing: Option<u32>,
}

impl Known {
    pub(super) fn check(&self) -> Option<Check> {
        self.lock().check
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sealed {
    /// Reads the check value and tries to open it; none if there is none.
    pub(super) async fn check(&self, catalog: CatalogId) -> Result<Option<Check>> {
        let Some((check, document)) = self.read_check().await? else {
            return Ok(None);
        };
        let ring = self.keys.with(check.key, OPENING).await;
        let Protected::Sealed(sealed) = document.bytes.clone() else {
            return Ok(None);
        };
        match ring.unseal(sealed, &place(catalog, &document)) {
            Ok(_) => Ok(Some(check)),
            Err(why) => Err(wrong(&ring, &why)),
        }
    }

    /// Reads which key seals, whether this process has it or not.
    pub(super) async fn learn(&self) -> Result<Option<Check>> {
        Ok(self.read_check().await?.map(|(check, _)| check))
    }

    async fn read_check(&self) -> Result<Option<(Check, Document)>> {
        let Some(document) = self.inner.document(KIND, "").await? else {
            return Ok(None);
        };
        let Protected::Sealed(sealed) = &document.bytes else {
            return Err(StoreError::Corrupt(
                "the check value of the master key lies in the store in the clear".into(),
            ));
        };
        let check = Check {
            key: sealed.key_id,
            version: document.version,
        };
        self.known.lock().check = Some(check);
        Ok(Some((check, document)))
    }

    /// Makes a check value under this key.
    pub(super) fn new_check(
        &self,
        catalog: CatalogId,
        ring: &KeyRing,
        key: u32,
    ) -> Result<Document> {
        let mut check = Document {
            kind: KIND.to_owned(),
            key: String::new(),
            bytes: Protected::Plain(Secret::new(Vec::new())),
            expires: None,
            version: 0,
        };
        let content = Secret::new(KIND.into());
        let sealed = ring.seal_under(key, &content, &place(catalog, &check));
        check.bytes = Protected::Sealed(sealed.ok_or_else(|| self.lacks(key))?);
        Ok(check)
    }

    /// Looks again which key seals, if the log says that this may have
    /// changed. Reading the log never fails by it: what could not be done is
    /// tried again with the next page.
    pub(super) async fn notice(&self, page: &ChangePage) {
        let stale = {
            let mut state = self.known.lock();
            let begins = state.log.replace(page.log) != Some(page.log) || page.gap;
            state.stale |= begins || page.changes.iter().any(|change| is_check(&change.subject));
            state.stale
        };
        // Until it is open, the opening looks.
        if !stale || self.which().opened.is_none() {
            return;
        }
        let Ok(Some(check)) = self.learn().await else {
            return;
        };
        let has_it = self.keys.with(check.key, FOLLOWING).await.has(check.key);
        let mut state = self.known.lock();
        state.stale = !has_it;
        if has_it {
            if state.missing.take().is_some() {
                tracing::info!("the master key {:08x} is here, it seals", check.key);
            }
        } else if !self.keys.is_reading() && state.missing.replace(check.key) != Some(check.key) {
            let error = self.lacks(check.key);
            tracing::error!(%error, "what is sealed under that key can't be served");
        }
    }

    /// What is wrong and what to do where the sealing key is not there.
    pub(super) fn lacks(&self, key: u32) -> StoreError {
        StoreError::Refused(
            format!(
                "the store seals under the master key {key:08x}, which is not in {}: add it \
                 there, it is looked for again; until then nothing is sealed here",
                self.keys.shown()
            )
            .into(),
        )
    }
}

fn is_check(subject: &Subject) -> bool {
    matches!(subject, Subject::Document { kind, .. } if kind == KIND)
}

fn wrong(ring: &KeyRing, why: &dyn std::fmt::Display) -> StoreError {
    let ids: Vec<_> = ring.ids().map(|id| format!("{id:08x}")).collect();
    let ids = ids.join(", ");
    StoreError::Refused(
        format!(
            "wrong master key {ids}: the check value does not open: {why}; give the key that the store seals under"
        )
        .into(),
    )
}

/// The kind of the document that is the check value, and its content. It
/// belongs to one catalog and is never copied into another.
pub const KIND: &str = "check";
/// What opening a store waits for its keys, and what a load waits for a key
/// that is new: a client waits no longer.
pub(super) const OPENING: Duration = Duration::from_secs(2);
/// What following the log waits: changes go on meanwhile.
const FOLLOWING: Duration = Duration::from_millis(20);
