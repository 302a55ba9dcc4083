//! State of the file server, and reads that fill its cache.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use sekisho_certs::Tenant;
use sekisho_certs::metrics::{Collector, DescriptorEncoder, gauge};

use super::Found;
use super::cache::{Cache, Entry, Key, What};
use super::load::{self, Loaded};
use super::permits::Permits;
use super::reads::{ReadPermit, Reads};
use crate::coding::gates::Coders;
use crate::limits::log_limiter::{self, LogLimits};
use crate::site::Guard;

#[derive(Debug)]
pub(super) struct FilesState {
    pub(super) cache: Cache,
    pub(super) reads: Reads,
    pub(super) open: Permits,
    pub(super) log_limits: LogLimits,
    pub(super) guard: Arc<Guard>,
    pub(super) coders: Arc<Coders>,
}

impl Collector for FilesState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (to, entries) = (&mut encoder, &self.cache.entries);
        let help = "Bytes of cached files";
        gauge(to, "file_cache_bytes", help, &entries.weight())?;
        let help = "Bytes that cached files may take";
        gauge(to, "file_cache_capacity_bytes", help, &entries.capacity())?;
        gauge(to, "file_cache_entries", "Cached paths", &entries.len())
    }
}

impl FilesState {
    /// Reads a path below a tenant's root and caches the result. Blocks.
    pub(super) fn load(
        &self,
        key: Key,
        tenant: &Tenant,
        known: Option<Arc<Entry>>,
        permit: ReadPermit,
    ) -> Found {
        let checked = self.cache.now();
        let identity = known.as_ref().and_then(|entry| entry.identity());
        let loaded = load::load(&key, identity, &self.guard);
        self.reads.renew_mounts();
        let file = log_limiter::File {
            host: &key.host,
            tenant,
            root: &key.root.template.text,
            path: &key.path,
        };
        let what = match loaded {
            Loaded::Unchanged => {
                let entry = known.expect("only a known file can be unchanged");
                entry.renew(checked);
                return Found::Entry(entry);
            }
            Loaded::Cached(what) => what,
            Loaded::Large(file) => {
                self.cache.insert(key, What::Large, checked);
                return Found::Large {
                    file: Box::new(file),
                    _permit: Box::new(permit),
                };
            }
            Loaded::Forbidden(why) => {
                let status = StatusCode::FORBIDDEN;
                if let Some(error) = why {
                    self.log_limits.unreadable(file, &error, status);
                }
                self.cache.remove(&key);
                return Found::Refused(status);
            }
            Loaded::Refused(refusal) => {
                self.guard.note(refusal, file);
                self.cache.remove(&key);
                return Found::Refused(StatusCode::SERVICE_UNAVAILABLE);
            }
            Loaded::Failed(error) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                self.log_limits.unreadable(file, &error, status);
                return Found::Refused(status);
            }
        };
        Found::Entry(self.cache.insert(key, what, checked))
    }
}
