//! Issuance that answers or waits as a test says, and counts its calls.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use sekisho_certs::store::BoxFuture;
use sekisho_certs::{HostName, HostRecord, Obtain, Obtained};
use tokio::sync::Semaphore;

/// Issuance without a CA.
pub struct Issuer {
    answer: Box<Answering>,
    calls: AtomicUsize,
    /// Each call uses up a permit.
    permits: Semaphore,
}

type Answering = dyn Fn(&HostName, Option<&HostRecord>) -> Obtained + Send + Sync;

impl Issuer {
    /// Makes an issuance that answers at its first poll.
    pub fn new(
        answer: impl Fn(&HostName, Option<&HostRecord>) -> Obtained + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Box::new(answer),
            calls: AtomicUsize::new(0),
            permits: Semaphore::new(UNHELD),
        }
    }

    /// Makes an issuance whose calls are held.
    pub fn held(
        answer: impl Fn(&HostName, Option<&HostRecord>) -> Obtained + Send + Sync + 'static,
    ) -> Self {
        let permits = Semaphore::new(0);
        Self {
            permits,
            ..Self::new(answer)
        }
    }

    /// Returns how many calls there were.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Lets this many held calls answer.
    pub fn release(&self, calls: usize) {
        self.permits.add_permits(calls);
    }
}

impl Obtain for Issuer {
    fn obtain<'a>(
        &'a self,
        name: &'a HostName,
        record: Option<&'a HostRecord>,
    ) -> BoxFuture<'a, Obtained> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.permits.acquire().await.expect("never closed").forget();
            (self.answer)(name, record)
        })
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

/// Permits of an issuance that holds no calls: more than any test has calls.
const UNHELD: usize = 1 << 40;
