//! Choices of a hook that a connection keeps.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sekisho_certs::{HostName, Lookup, Served};
use tokio::time::Instant;

use super::{ClientFacts, Resolved};
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::metrics::LookupResult;

/// State of a connection whose handshake asked the hook.
pub(crate) struct Hooked {
    pub(crate) facts: Arc<ClientFacts>,
    /// The listening address as configured.
    pub(crate) listen: SocketAddr,
    /// Choices by name, at most [`MAX_KEPT`]; the connection's own name first.
    kept: Mutex<Vec<Kept>>,
}

/// Choice for one name.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) name: HostName,
    pub(crate) served: Arc<Served<VirtualHost>>,
    /// The name that was looked up; none for a certificate that the hook gave.
    pub(crate) host: Option<HostName>,
    revision: u64,
    until: Instant,
    /// Failures of the hook since it chose this.
    failures: u32,
    /// How the name was looked up; what a handshake has looked up is taken by its
    /// first request.
    pub(crate) lookup: Option<LookupResult>,
}

impl Hooked {
    pub(crate) fn new(facts: Arc<ClientFacts>, listen: SocketAddr, own: Option<Kept>) -> Self {
        Self {
            facts,
            listen,
            kept: Mutex::new(own.into_iter().collect()),
        }
    }

    /// Returns what `target` makes of the choice for a name as a request writes it, if
    /// the choice has not ended and its record needs no new lookup.
    pub(crate) fn current<T>(
        &self,
        name: &str,
        lookup: &Lookup<VirtualHost>,
        target: impl FnOnce(&mut Kept) -> T,
    ) -> Option<T> {
        let mut kept = self.lock();
        let mut all = kept.iter_mut();
        let kept = all.find(|kept| kept.name.as_str().eq_ignore_ascii_case(name))?;
        let is_current = !kept.has_ended() && kept.is_current(lookup);
        is_current.then(|| target(kept))
    }

    /// Returns the choice for a name.
    pub(crate) fn kept(&self, name: &HostName) -> Option<Kept> {
        let kept = self.lock();
        kept.iter().find(|kept| kept.name == *name).cloned()
    }

    /// Keeps a choice of a request instead of the earlier one for its name.
    pub(crate) fn keep(&self, new: &Kept) {
        let new = Kept {
            lookup: None,
            ..new.clone()
        };
        let mut kept = self.lock();
        match kept.iter_mut().find(|kept| kept.name == new.name) {
            Some(old) => *old = new,
            None => {
                kept.truncate(MAX_KEPT - 1);
                kept.push(new);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    pub(crate) fn new(name: HostName, resolved: &Resolved) -> Self {
        Self {
            name,
            served: Arc::clone(&resolved.served),
            host: resolved.host.clone(),
            revision: resolved.revision,
            until: resolved.until,
            failures: 0,
            lookup: Some(resolved.lookup),
        }
    }

    /// Returns whether the choice has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.until <= Instant::now()
    }

    /// Returns whether the record needs no new lookup.
    fn is_current(&self, lookup: &Lookup<VirtualHost>) -> bool {
        self.host.is_none() || lookup.is_current(&self.served, self.revision)
    }

    /// Returns the choice with its record looked up again; none if the record has
    /// changed.
    pub(crate) fn confirmed(
        self,
        found: Arc<Served<VirtualHost>>,
        revision: u64,
        how: LookupResult,
    ) -> Option<Self> {
        let is_same = self.served.host().is_same(found.host());
        is_same.then(|| Self {
            served: found,
            revision,
            lookup: Some(how),
            ..self
        })
    }

    /// Returns the choice prolonged, since the hook failed: a run that hangs takes all of
    /// its time, and requests wait for it.
    pub(crate) fn prolonged(self) -> Self {
        Self {
            until: Instant::now() + served_on(self.failures),
            failures: self.failures.saturating_add(1),
            lookup: Some(LookupResult::HookKept),
            ..self
        }
    }

    /// Returns whether the hook has chosen the same again: the same host, or a
    /// certificate under the same key.
    pub(crate) fn is_choice(&self, resolved: &Resolved) -> bool {
        match (&self.host, &resolved.host) {
            (Some(own), Some(other)) => own == other,
            (None, None) => {
                let pattern = |served: &Served<_>| served.host().record.pattern.clone();
                pattern(&self.served) == pattern(&resolved.served)
            }
            _ => false,
        }
    }
}

/// Returns the time until a hook is asked again that had failed so often before: at first
/// 1 s.
fn served_on(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST)
}

const FIRST: Duration = Duration::from_secs(1);
/// A hook that works again is asked within a minute.
const LONGEST: Duration = Duration::from_mins(1);
/// Names that one connection remembers; few pages use more.
const MAX_KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_fails_again_is_asked_less_often() {
        let seconds = [0, 1, 2, 5, 6, u32::MAX].map(|failures| served_on(failures).as_secs());
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
