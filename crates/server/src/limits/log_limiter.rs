//! Log rate limits, for problems that every handshake or request may hit.

use std::fmt;
use std::hash::BuildHasher;
use std::io;

use foldhash::quality::RandomState;
use http::StatusCode;
use sekisho_certs::{HostName, HostPattern, LoadedCredential, LogLimiter, LookupError, Tenant};

use crate::limits::budget::Prefix;

/// Rate limits by kind of problem: one line per 10 s, or one for each group of tenants
/// where a tenant can cause it. The metrics count all of them.
#[derive(Debug, Default)]
pub(crate) struct LogLimits {
    expired: ByTenant,
    failed: LogLimiter,
    hook_late: LogLimiter,
    challenge_failed: LogLimiter,
    challenge_answered: LogLimiter,
    challenge_absent: LogLimiter,
    unreadable: ByTenant,
    site_refused: ByTenant,
    alias_failed: ByTenant,
    upstream_refused: ByTenant,
    upstream_failed: ByTenant,
    script_complained: ByTenant,
    file_refused: ByTenant,
    given_up: LogLimiter,
    holds_most: LogLimiter,
}

/// Limits by the tenant that causes a line: one that causes many keeps the lines of few
/// others out, and which ones differs with each start.
#[derive(Debug)]
struct ByTenant {
    limiters: [LogLimiter; GROUPS],
    hasher: RandomState,
}

impl Default for ByTenant {
    fn default() -> Self {
        Self {
            limiters: std::array::from_fn(|_| LogLimiter::default()),
            hasher: RandomState::default(),
        }
    }
}

impl ByTenant {
    /// As [`LogLimiter::allow`], for the group of this tenant.
    fn allow(&self, tenant: &Tenant) -> Option<u64> {
        let group = self.hasher.hash_one(tenant) % GROUPS as u64;
        self.limiters[usize::try_from(group).expect("below GROUPS")].allow()
    }
}

impl LogLimits {
    /// Logs a certificate that is served outside of its validity.
    pub(crate) fn expired(
        &self,
        (name, tenant): (&HostName, &Tenant),
        credential: &LoadedCredential,
        now: i64,
    ) {
        if let Some(others) = self.expired.allow(tenant) {
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
    pub(crate) fn unreadable(&self, file: File<'_>, error: &io::Error, status: StatusCode) {
        let File {
            host, root, path, ..
        } = file;
        if let Some(others) = self.unreadable.allow(file.tenant) {
            let status = status.as_u16();
            tracing::warn!(host, root, path, %error, others, "file can't be read: answered with {status}");
        }
    }

    /// Logs a host record whose root or upstream is not allowed.
    pub(crate) fn site_refused(
        &self,
        (pattern, tenant): (&HostPattern, &Tenant),
        what: &str,
        refusal: &dyn fmt::Display,
    ) {
        if let Some(others) = self.site_refused.allow(tenant) {
            tracing::error!(
                %pattern, what, others,
                "the host is answered with 503: {refusal}; `sekisho check` lists all such hosts; \
                 reload the server after a change of [sites]"
            );
        }
    }

    /// Logs a host record whose site has a key of earlier documents.
    pub(crate) fn site_moved(
        &self,
        (pattern, tenant): (&HostPattern, &Tenant),
        error: &dyn fmt::Display,
    ) {
        if let Some(others) = self.site_refused.allow(tenant) {
            tracing::error!(
                %pattern, others,
                "the host is answered with 503: {error}; `sekisho check` lists all such hosts"
            );
        }
    }

    /// Logs a request whose host answers as another, which can't be used.
    pub(crate) fn alias_failed(&self, name: &HostName, of: &Tenant, site: &HostName, why: &str) {
        if let Some(others) = self.alias_failed.allow(of) {
            tracing::error!(%name, %site, why, others, "site of another host can't be used: the request gets 503");
        }
    }

    /// Logs a request whose upstream resolved to an address that is not allowed.
    pub(crate) fn upstream_refused(
        &self,
        (host, tenant): (&str, &Tenant),
        address: &dyn fmt::Display,
        refusal: &dyn fmt::Display,
    ) {
        if let Some(others) = self.upstream_refused.allow(tenant) {
            tracing::error!(
                host, %address, others,
                "upstream refused with 503: {refusal}; reload the server after a change of [sites]"
            );
        }
    }

    /// Logs a request that an upstream's servers did not answer. A suppressed line is
    /// logged at debug.
    pub(crate) fn upstream_failed(
        &self,
        (host, tenant): (&str, &Tenant),
        upstream: &dyn fmt::Display,
        failure: &dyn fmt::Display,
        status: StatusCode,
        hint: &str,
    ) {
        let Some(others) = self.upstream_failed.allow(tenant) else {
            tracing::debug!(host, %upstream, %failure, "upstream failed");
            return;
        };
        tracing::warn!(
            host, %upstream, %failure, others,
            "upstream failed: the client got {}; {hint}",
            status.as_u16()
        );
    }

    /// Logs the beginning of what a script wrote to standard error.
    pub(crate) fn script_complained(
        &self,
        (host, tenant): (&str, &Tenant),
        script: &str,
        text: &str,
    ) {
        if let Some(others) = self.script_complained.allow(tenant) {
            let tenant = tenant.as_str();
            tracing::warn!(
                host,
                tenant,
                script,
                text,
                others,
                "script wrote to standard error"
            );
        }
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
    pub(crate) fn file_refused(&self, file: File<'_>, refusal: &dyn fmt::Display) {
        let File {
            host, root, path, ..
        } = file;
        if let Some(others) = self.file_refused.allow(file.tenant) {
            tracing::error!(host, root, path, others, "file refused with 503: {refusal}");
        }
    }
}

/// File that a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'a> {
    /// The host name; empty if the root does not depend on it.
    pub(crate) host: &'a str,
    pub(crate) tenant: &'a Tenant,
    pub(crate) root: &'a str,
    pub(crate) path: &'a str,
}

/// Groups of tenants, each with lines of its own: 6 lines a second at most.
const GROUPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_keeps_few_others_out() {
        let limits = ByTenant::default();
        let tenant = |number: usize| Tenant::parse(&format!("t{number}")).unwrap();
        assert!(limits.allow(&tenant(0)).is_some());
        assert!(limits.allow(&tenant(0)).is_none());
        let kept_out = (1..1000).filter(|number| {
            let limits = ByTenant::default();
            let _ = limits.allow(&tenant(0));
            limits.allow(&tenant(*number)).is_none()
        });
        // 16 are expected.
        assert!((1..60).contains(&kept_out.count()));
    }
}
