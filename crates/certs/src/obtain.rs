//! On-demand issuance: the last step of a lookup of a host without credential.

use std::fmt::Debug;
use std::sync::Arc;

use crate::host::HostName;
use crate::record::HostRecord;
use crate::store::BoxFuture;

/// Obtains a credential while a client waits, where that is allowed.
///
/// On-demand issuance will implement this trait. Nothing issues yet:
/// [`NeverObtain`] is the only implementation.
///
/// - Called only for a name that the store answered: with its record if there
///   is one without a credential, without one if the host is absent. Never
///   after a failure.
/// - Called once per name at a time, in a task that no client can cancel.
pub trait Obtain: Debug + Send + Sync + 'static {
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
    /// This host may not have one.
    Refused,
    /// The credential is in the store now.
    Stored,
    /// Issuance is allowed, but failed for this reason.
    Failed(Arc<str>),
}

/// Disables on-demand issuance.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverObtain;

impl Obtain for NeverObtain {
    fn obtain<'a>(&'a self, _: &'a HostName, _: Option<&'a HostRecord>) -> BoxFuture<'a, Obtained> {
        Box::pin(std::future::ready(Obtained::Refused))
    }
}
