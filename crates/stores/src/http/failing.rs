//! Tells whether server errors and time-outs are one host's or the endpoint's.

use std::sync::Mutex;

use sekisho_certs::host::HostPattern;
use sekisho_certs::lock;

/// The hosts that got a server error, or no answer in time, since the endpoint
/// last gave an answer.
///
/// An endpoint may fail for one host alone, whose data or backend is broken. A
/// client picks the host, so that must not shut the endpoint off for others.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<Vec<HostPattern>>);

impl Failing {
    /// Notes a failure for this host. True if so many hosts in a row met one that
    /// the endpoint itself has failed.
    pub(super) fn is_endpoint(&self, host: &HostPattern) -> bool {
        let mut hosts = lock(&self.0);
        if !hosts.contains(host) && hosts.len() < FAILED_HOSTS {
            hosts.push(host.clone());
        }
        hosts.len() >= FAILED_HOSTS
    }

    /// Forgets all of them: the endpoint has answered.
    pub(super) fn answered(&self) {
        lock(&self.0).clear();
    }
}

/// Hosts in a row: more than one tenant's broken backend has at a time.
const FAILED_HOSTS: usize = 4;
