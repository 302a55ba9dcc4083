//! The last step of a lookup: getting a credential for a host without one.

use std::fmt::Debug;
use std::sync::Arc;

use crate::host::HostName;
use crate::record::HostRecord;
use crate::store::BoxFuture;

/// Gets a credential while a client waits, where that is allowed.
///
/// - Called only for a name that the store answered: with its record if there
///   is one without a credential, without one if the host is absent. Never
///   after a failure.
/// - Called once per name at a time, in a task that no client can cancel.
pub trait Obtain: Debug + Send + Sync + 'static {
    /// Tries to get a credential for `name`.
    fn obtain<'a>(
        &'a self,
        name: &'a HostName,
        record: Option<&'a HostRecord>,
    ) -> BoxFuture<'a, Obtained>;
}

/// How trying ended.
#[derive(Clone, Debug)]
pub enum Obtained {
    /// This host may not get one.
    Refused,
    /// It is in the store now.
    Stored,
    /// It may, but it did not work this time; says why.
    Failed(Arc<str>),
}

/// Gets nothing for nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverObtain;

impl Obtain for NeverObtain {
    fn obtain<'a>(&'a self, _: &'a HostName, _: Option<&'a HostRecord>) -> BoxFuture<'a, Obtained> {
        Box::pin(std::future::ready(Obtained::Refused))
    }
}
