//! Digest of `[sites]`, which tells whether a server reads sites as a command does.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use super::Config;

impl Config {
    /// Returns the first half of SHA-256 over the settings by which sites of host records
    /// are judged. A server shows that of its start.
    pub(crate) fn sites_digest(&self) -> String {
        let allowed = self.allowed.texts().iter();
        let allowed = allowed.map(|text| format!("allow {text}"));
        let servers = self.name_servers.iter().map(|at| format!("resolver {at}"));
        let fields = format!("fields {:?}", self.named_fields);
        let lines: Vec<_> = allowed.chain(servers).chain([fields]).collect();
        let digest = digest(&SHA256, lines.join("\n").as_bytes());
        HEXLOWER.encode(&digest.as_ref()[..16])
    }
}
