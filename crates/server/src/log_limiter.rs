//! Log rate limits, for problems that every handshake or request may hit.

use std::fmt;
use std::io;

use http::StatusCode;
use sekisho_certs::{HostName, HostPattern, LoadedCredential, LogLimiter, LookupError};

use crate::budget::Prefix;

/// Rate limits by kind of problem: one line per 10 s. The metrics count all of
/// them.
#[derive(Debug, Default)]
pub(crate) struct LogLimits {
    expired: LogLimiter,
    failed: LogLimiter,
    hook_late: LogLimiter,
    challenge_failed: LogLimiter,
    challenge_answered: LogLimiter,
    challenge_absent: LogLimiter,
    unreadable: LogLimiter,
    site_refused: LogLimiter,
    upstream_refused: LogLimiter,
    upstream_failed: LogLimiter,
    file_refused: LogLimiter,
    given_up: LogLimiter,
    holds_most: LogLimiter,
}

impl LogLimits {
    /// Logs a certificate that is served outside of its validity.
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

    /// Logs a failed lookup.
    pub(crate) fn failed(&self, name: &HostName, error: &LookupError) {
        if let Some(others) = self.failed.allow() {
            tracing::error!(%name, %error, others, "lookup failed: the client is refused");
        }
    }

    /// Logs a hook that did not answer.
    pub(crate) fn hook_late(&self, name: Option<&HostName>) {
        if let Some(others) = self.hook_late.allow() {
            let name = name.map(HostName::as_str);
            tracing::error!(
                name,
                others,
                "the hook gave no answer in time: the client is refused"
            );
        }
    }

    /// Logs a challenge, by its host name or token, that could not be read.
    pub(crate) fn challenge_failed(&self, key: &str, error: &LookupError) {
        if let Some(others) = self.challenge_failed.allow() {
            tracing::error!(challenge = key, %error, others, "challenge can't be read: its CA gets no answer");
        }
    }

    /// Logs a validation over TLS by what the CA gets: it tells its own side in few words.
    pub(crate) fn challenge_asked(&self, name: &HostName, is_there: bool) {
        let (limit, what) = match is_there {
            true => (&self.challenge_answered, "challenge answered"),
            false => (
                &self.challenge_absent,
                "challenge absent: its CA is refused",
            ),
        };
        if let Some(others) = limit.allow() {
            tracing::info!(%name, others, "{what}");
        }
    }

    /// Logs a file that the system failed to read.
    pub(crate) fn unreadable(&self, host: &str, root: &str, path: &str, error: &io::Error) {
        if let Some(others) = self.unreadable.allow() {
            tracing::warn!(host, root, path, %error, others, "file can't be read: answered with 500");
        }
    }

    /// Logs a host record whose root or upstream is not allowed.
    pub(crate) fn site_refused(
        &self,
        pattern: &HostPattern,
        what: &str,
        refusal: &dyn fmt::Display,
    ) {
        if let Some(others) = self.site_refused.allow() {
            tracing::error!(
                %pattern, what, others,
                "the host is answered with 503: {refusal}; `sekisho check` lists all such hosts; \
                 restart the server after a change of [sites]"
            );
        }
    }

    /// Logs a host record whose site has a key of earlier documents.
    pub(crate) fn site_moved(&self, pattern: &HostPattern, error: &dyn fmt::Display) {
        if let Some(others) = self.site_refused.allow() {
            tracing::error!(
                %pattern, others,
                "the host is answered with 503: {error}; `sekisho check` lists all such hosts"
            );
        }
    }

    /// Logs a request whose upstream resolved to an address that is not allowed.
    pub(crate) fn upstream_refused(
        &self,
        host: &str,
        address: &dyn fmt::Display,
        refusal: &dyn fmt::Display,
    ) {
        if let Some(others) = self.upstream_refused.allow() {
            tracing::error!(
                host, %address, others,
                "upstream refused with 503: {refusal}; restart the server after a change of [sites]"
            );
        }
    }

    /// Logs a request that an upstream's servers did not answer. A suppressed line is
    /// logged at debug.
    pub(crate) fn upstream_failed(
        &self,
        host: &str,
        upstream: &dyn fmt::Display,
        failure: &dyn fmt::Display,
        status: StatusCode,
        hint: &str,
    ) {
        let Some(others) = self.upstream_failed.allow() else {
            tracing::debug!(host, %upstream, %failure, "upstream failed");
            return;
        };
        tracing::warn!(
            host, %upstream, %failure, others,
            "upstream failed: the client got {}; {hint}",
            status.as_u16()
        );
    }

    /// Logs that a connection of this prefix was closed at a worker's limit.
    pub(crate) fn given_up(&self, prefix: Prefix, limit: usize) {
        if let Some(others) = self.given_up.allow() {
            tracing::warn!(
                %prefix, limit, others,
                "connections of the client network with most of them are closed, the longest idle \
                 first: a worker's part of [server] connections is reached"
            );
        }
    }

    /// Logs a connection of this prefix that was ended since bodies take all memory that
    /// is meant for them.
    pub(crate) fn holds_most(&self, prefix: Prefix, limit: usize) {
        if let Some(others) = self.holds_most.allow() {
            tracing::warn!(
                %prefix, limit_mib = limit >> 20, others,
                "the HTTP/2 connection that holds most bytes of bodies, of the client network \
                 with most of them, is ended: all connections together hold the limit; an \
                 upstream may take uploads too slowly, or clients its answers"
            );
        }
    }

    /// Logs a file that may not be served.
    pub(crate) fn file_refused(
        &self,
        host: &str,
        root: &str,
        path: &str,
        refusal: &dyn fmt::Display,
    ) {
        if let Some(others) = self.file_refused.allow() {
            tracing::error!(host, root, path, others, "file refused with 503: {refusal}");
        }
    }
}
