//! On-demand issuance: the last step of a lookup of a host without credential.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::host::HostName;
use crate::record::HostRecord;
use crate::store::BoxFuture;

/// Obtains a credential while clients wait, where that is allowed.
///
/// - Called only for a name that the store itself answered: with the record that
///   answers if it has no credential, without one if the name is absent. Never
///   after a failure, never for a disabled host, and never with a stale answer
///   ([`Answer::is_stale`](crate::Answer::is_stale)).
/// - Called for one name once at a time, in a task that no client can cancel. The
///   task ends with its runtime.
/// - Called for any number of names at once: implementations bound what they
///   have in flight.
/// - Called only if a caller wants a certificate
///   ([`Lookup::load`](crate::Lookup::load)), never for those who read what is stored
///   ([`Lookup::read`](crate::Lookup::read)).
/// - A call that refuses or fails at its first poll is part of the read. During any other
///   call waiters know that a certificate is being obtained
///   ([`Progress::Obtaining`](crate::Progress)), and the observer of the read has
///   been told of the absence ([`Lookup::load_with`](crate::Lookup::load_with)).
/// - What is answered holds for its time, or until the feed tells that the
///   record or the wildcard above the name changed. Until then the name is not
///   obtained again, unless the note about it is evicted. If no healthy feed
///   watches the record, the answer holds as long as an absence at most.
/// - Called again for the same waiters if a change overtook the answer, or if the
///   store still has no credential after [`Obtained::Stored`], at most 8 times.
pub trait Obtain: Debug + Send + Sync + 'static {
    /// Tells whether a call may ever obtain a credential. False only if each call is
    /// refused at its first poll.
    fn is_possible(&self) -> bool {
        true
    }

    /// Tries to obtain a credential for `name`.
    fn obtain<'a>(
        &'a self,
        name: &'a HostName,
        record: Option<&'a HostRecord>,
    ) -> BoxFuture<'a, Obtained>;
}

/// Result of an attempt.
#[derive(Clone, Debug)]
pub enum Obtained {
    /// The host may not have a credential: clients get the absence that the
    /// store answered.
    Refused {
        /// Time after which this is asked again; none if only a change of the
        /// record can alter it.
        retry_after: Option<Duration>,
    },
    /// The credential is in the store now.
    Stored,
    /// Issuance is allowed, but failed: clients get an error.
    Failed {
        /// The cause, for the log.
        why: Arc<str>,
        /// Time after which the next attempt is made. Lookups fail until then,
        /// without a store call.
        retry_after: Duration,
    },
}

/// Disables on-demand issuance.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverObtain;

impl Obtain for NeverObtain {
    fn is_possible(&self) -> bool {
        false
    }

    fn obtain<'a>(&'a self, _: &'a HostName, _: Option<&'a HostRecord>) -> BoxFuture<'a, Obtained> {
        Box::pin(std::future::ready(Obtained::Refused { retry_after: None }))
    }
}
