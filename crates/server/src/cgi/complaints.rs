//! Standard error of a script or program, for the log.

use std::sync::Arc;

use sekisho_certs::{HostName, Tenant};

use crate::limits::log_limiter::LogLimits;

/// Standard error of a script while it answers one request. Dropping it logs
/// the beginning.
#[derive(Debug)]
pub(crate) struct Complaints {
    log_limits: Arc<LogLimits>,
    host: HostName,
    tenant: Tenant,
    script: Box<str>,
    first: Vec<u8>,
    length: usize,
}

impl Complaints {
    /// Makes those of a script of a host.
    pub(crate) fn new(
        log_limits: &Arc<LogLimits>,
        (host, tenant): (&HostName, &Tenant),
        script: &str,
    ) -> Self {
        Self {
            log_limits: Arc::clone(log_limits),
            host: host.clone(),
            tenant: tenant.clone(),
            script: script.into(),
            first: Vec::new(),
            length: 0,
        }
    }

    /// Adds bytes. Returns false once they are too many.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> bool {
        let room = LOGGED - self.first.len();
        self.first
            .extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.length = self.length.saturating_add(bytes.len());
        self.length <= MOST
    }

    /// Returns the text in one line, without characters that control terminals.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.first);
        text.trim().replace(char::is_control, " ")
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        let text = self.text();
        if !text.is_empty() {
            let whose = (self.host.as_str(), &self.tenant);
            self.log_limits
                .script_complained(whose, &self.script, &text);
        }
    }
}

/// Bytes that a line of the log shows.
const LOGGED: usize = 1 << 10;
/// Bytes of one request. An application that logs each query writes less.
const MOST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line_of_1_kib() {
        let new = || {
            let host = HostName::parse("a.example").unwrap();
            Complaints::new(&Arc::default(), (&host, &Tenant::default()), "run")
        };
        let mut complaint = new();
        assert!(complaint.add(b"\nerror:\x1b[31m two\r\nlines \xff\n"));
        assert_eq!(complaint.text(), "error: [31m two  lines \u{fffd}");
        let mut long = new();
        for _ in 0..100 {
            assert!(long.add(&[b'a'; 100]));
        }
        assert_eq!((long.length, long.text().len()), (10_000, LOGGED));
        assert!(!long.add(&vec![b'a'; MOST]));
        assert_eq!(new().text(), "");
    }
}
