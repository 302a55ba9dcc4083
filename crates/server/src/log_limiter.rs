//! Limits how often the log tells of trouble that each handshake may meet.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use sekisho_certs::{HostName, HostPattern, LoadedCredential, LookupError};
use tokio::time::Instant;

use crate::budget::Prefix;
use crate::site::Refusal;

/// Bounds how often the same kind of trouble is logged; all of it is counted
/// in the metrics.
#[derive(Debug, Default)]
pub(crate) struct LogLimits {
    expired: LogLimiter,
    failed: LogLimiter,
    unreadable: LogLimiter,
    root_refused: LogLimiter,
    file_refused: LogLimiter,
    given_up: LogLimiter,
}

impl LogLimits {
    /// A certificate is served outside of its dates.
    pub(crate) fn expired(&self, name: &HostName, credential: &LoadedCredential, now: i64) {
        if let Some(others) = self.expired.allow() {
            let (id, end) = (credential.id, credential.not_after);
            let what = if now > end {
                "expired"
            } else {
                "not valid yet"
            };
            tracing::warn!(%name, %id, others, "served a certificate that is {what}");
        }
    }

    /// A lookup failed.
    pub(crate) fn failed(&self, name: &HostName, error: &LookupError) {
        if let Some(others) = self.failed.allow() {
            tracing::error!(%name, %error, others, "a lookup failed");
        }
    }

    /// The system failed to read a file.
    pub(crate) fn unreadable(&self, host: &str, root: &str, path: &str, error: &io::Error) {
        if let Some(others) = self.unreadable.allow() {
            tracing::warn!(host, root, path, %error, others, "a file can't be read");
        }
    }

    /// The root of a host record is not allowed.
    pub(crate) fn root_refused(&self, pattern: &HostPattern, root: &str) {
        if let Some(others) = self.root_refused.allow() {
            tracing::error!(
                %pattern, root, others,
                "the host is answered with 503: its root lies outside of [sites] allow; \
                 `sekisho check` lists all such hosts"
            );
        }
    }

    /// Connections of this prefix made room for others.
    pub(crate) fn given_up(&self, prefix: Prefix, limit: usize) {
        if let Some(others) = self.given_up.allow() {
            tracing::warn!(
                %prefix, limit, others,
                "the longest idle connections of the client network with most of them are closed: \
                 [server] connections is nearly reached"
            );
        }
    }

    /// A file may not be served.
    pub(crate) fn file_refused(&self, host: &str, root: &str, path: &str, refusal: Refusal) {
        if let Some(others) = self.file_refused.allow() {
            tracing::error!(
                host,
                root,
                path,
                others,
                "a request for a file is answered with 503: {refusal}"
            );
        }
    }
}

/// Lets one line per [`INTERVAL`] through.
#[derive(Debug, Default)]
struct LogLimiter(Mutex<Option<(Instant, u64)>>);

impl LogLimiter {
    /// Returns how many lines were held back since the last one; none if this
    /// one is to be held back too.
    fn allow(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &mut *state {
            Some((last, held)) if now - *last < INTERVAL => {
                *held += 1;
                None
            }
            state => {
                let held = state.map_or(0, |(_, held)| held);
                *state = Some((now, 0));
                Some(held)
            }
        }
    }
}

const INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_in_ten_seconds() {
        let sparse = LogLimiter::default();
        assert_eq!(sparse.allow(), Some(0));
        for _ in 0..5 {
            assert_eq!(sparse.allow(), None);
        }
        tokio::time::advance(INTERVAL).await;
        assert_eq!(sparse.allow(), Some(5));
    }
}
