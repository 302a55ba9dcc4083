//! Serves files below a site's root.

mod answer;
mod cache;
mod coded;
mod conditional;
mod kind;
mod load;
mod mounts;
mod page;
mod path;
mod permits;
mod range;
mod reads;
mod scripts;
mod state;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use sekisho_certs::metrics::Registry;
use sekisho_certs::{HostName, Tenant};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::coding::gates::Coders;
use crate::limits::log_limiter::LogLimits;
use crate::site::body::{Body, is_read, method_not_allowed, plain};
use crate::site::{CacheRule, Candidate, Guard, Root, RuleOptions, SitePath, redirect_to};
use cache::{Age, Cache, Entry, Form, Key, KeyRef, What};
use permits::{OpenPermit, Permits};
use reads::{FolderReads, ReadPermit, Reads};
use state::FilesState;

pub(crate) use coded::Source;
pub(crate) use path::FilePath;
pub(crate) use permits::Opener;
pub use permits::{MAX_OPEN_FILES, OpenFiles};
pub(crate) use reads::READS_IN_FLIGHT;
pub(crate) use scripts::ScriptPath;

/// File server with a memory cache of small files.
///
/// A worker never waits for the disk: opening, reading and revalidation run on
/// the blocking pool, at most [`READS_IN_FLIGHT`] at once.
#[derive(Debug)]
pub(crate) struct Files(Arc<FilesState>);

impl Files {
    /// Makes a file server that caches at most `capacity` bytes of small files, and reads no
    /// file that `guard` refuses.
    pub(crate) fn new(capacity: usize, guard: Arc<Guard>) -> Self {
        Self(Arc::new(FilesState {
            cache: Cache::new(capacity),
            reads: Reads::new(),
            open: Permits::new(),
            log_limits: LogLimits::default(),
            guard,
            coders: Arc::new(Coders::new()),
        }))
    }

    /// Answers a request for a file of a folder: for the file of the request's path, or
    /// the first of the paths that its rule tries. The rule may name the files that stand for
    /// a folder.
    pub(crate) async fn respond(
        &self,
        folder: Folder<'_>,
        asked: Asked<'_>,
        open: Opener<'_>,
    ) -> Response<Body> {
        if !is_read(&asked.head.method) {
            return method_not_allowed("GET, HEAD");
        }
        let path = match FilePath::parse(asked.rewritten) {
            Err(StatusCode::BAD_REQUEST) => return plain(StatusCode::BAD_REQUEST),
            _ if !asked.tried().is_empty() || !asked.index().is_empty() => {
                // Boxed: requests that try nothing have no room for it.
                let first = Box::pin(self.find_script(folder, asked, None, open));
                return first.await.expect_err("no script was looked for");
            }
            Err(status) => return plain(status),
            Ok(path) => path,
        };
        match self.serve(folder, &asked, &path, open).await {
            Ok(response) => response,
            Err(NoFile::Directory) => asked.with_slash(),
            Err(NoFile::Missing) => plain(StatusCode::NOT_FOUND),
        }
    }

    /// Answers with the file of one path.
    async fn serve(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        open: Opener<'_>,
    ) -> Result<Response<Body>, NoFile> {
        if let Some(options) = asked.options
            && (options.compress.is_some() || !options.precompressed.is_empty())
        {
            // Boxed: requests without codings have no room for it.
            return Box::pin(self.serve_coded(folder, asked, path, open, options)).await;
        }
        let (found, permit) = self.look_for(folder, path, Form::Plain, open).await;
        self.answer_with(folder, asked, found, permit)
    }

    /// Finds a form of a path, and takes a permit for a file that is read while it is sent.
    async fn look_for(
        &self,
        folder: Folder<'_>,
        path: &FilePath<'_>,
        form: Form,
        open: Opener<'_>,
    ) -> (Found, Option<OpenPermit>) {
        let mut found = self.find(folder, path, form, true).await;
        let mut permit = None;
        if let Found::Large { .. } | Found::Noted = found {
            permit = self.0.open.try_permit(open);
            if permit.is_none() {
                // Closes the file while it waits: only files with a permit stay
                // open.
                found = Found::Noted;
                permit = self.0.open.permit(open).await;
            }
            if permit.is_some() && matches!(found, Found::Noted) {
                found = self.find(folder, path, form, false).await;
            }
        }
        (found, permit)
    }

    fn answer_with(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        found: Found,
        permit: Option<OpenPermit>,
    ) -> Result<Response<Body>, NoFile> {
        Ok(match found {
            Found::Entry(entry) => match &entry.what {
                What::File(file) => answer::cached(asked, file),
                What::Directory => return Err(NoFile::Directory),
                What::Missing | What::NoCopy | What::Script | What::Compressed(_) => {
                    return Err(NoFile::Missing);
                }
                What::Large => unreachable!("found as Found::Noted"),
            },
            Found::Large { file, .. } => match permit {
                Some(permit) => {
                    let reads = self.0.reads.of(folder);
                    answer::streamed(asked, *file, reads, permit)
                }
                None => plain(StatusCode::SERVICE_UNAVAILABLE),
            },
            Found::Refused(status) => plain(status),
            Found::Noted => plain(StatusCode::SERVICE_UNAVAILABLE),
        })
    }

    /// Drops the cached files and bounds the cache to [`GIVEN_BACK`] bytes.
    pub(crate) fn give_back(&self) {
        self.0.cache.shrink(GIVEN_BACK);
    }

    /// Registers the metrics of the cache and of refusals.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let cache = &self.0.cache;
        let help = "Requests for files answered from memory";
        registry.register("file_cache_hits", help, cache.hits.clone());
        let help = "Requests for files that waited for the disk";
        registry.register("file_cache_misses", help, cache.misses.clone());
        self.guard().refused().register(registry);
        registry.register_collector(Box::new(Arc::clone(&self.0)));
    }

    /// Returns the guard that judges each file.
    pub(crate) fn guard(&self) -> &Arc<Guard> {
        &self.0.guard
    }

    /// Finds the entry of a path. An entry is fresh for 1 s and comes from
    /// the cache. A file does so up to 10 s, and is read again in the background
    /// (stale-while-revalidate). Else the disk is read first. A stale file is
    /// served if that takes longer than [`KNOWN_WAIT`]. If `noted`, a file that
    /// was too large for the cache in the last 10 s is not opened. A script is not read.
    async fn find(
        &self,
        folder: Folder<'_>,
        path: &FilePath<'_>,
        form: Form,
        noted: bool,
    ) -> Found {
        let key = KeyRef::new(folder, path, form);
        let known = match self.0.cache.find(&key) {
            Some((entry, age)) if entry.is_large() => {
                if noted && age != Age::Stale {
                    return Found::Noted;
                }
                None
            }
            Some((entry, Age::Fresh)) => return Found::Entry(entry),
            Some((entry, Age::Refresh)) => {
                self.refresh(&key, folder, &entry);
                return Found::Entry(entry);
            }
            Some((entry, Age::Stale)) => Some(entry),
            None => None,
        };
        // A stale directory or absence is not served: the file may exist by now.
        let fallback = known.clone().filter(|entry| entry.is_file());
        let reads = self.0.reads.of(folder);
        let reading = self.read(key.to_key(), folder.tenant.clone(), reads, known);
        let read = match fallback {
            None => reading.await,
            Some(entry) => {
                let read = timeout(KNOWN_WAIT, reading).await;
                Some(read.ok().flatten().unwrap_or(Found::Entry(entry)))
            }
        };
        read.unwrap_or(Found::Refused(StatusCode::SERVICE_UNAVAILABLE))
    }

    /// Reads a path from the disk. None if that is too busy, or hangs.
    async fn read(
        &self,
        key: Key,
        tenant: Tenant,
        reads: FolderReads,
        known: Option<Arc<Entry>>,
    ) -> Option<Found> {
        let permit = timeout(READ_WAIT, reads.permit()).await.ok()?.ok()?;
        let shared = Arc::clone(&self.0);
        let reading = spawn_blocking(move || shared.load(key, &tenant, known, permit));
        let broken = Found::Refused(StatusCode::INTERNAL_SERVER_ERROR);
        // The timeout covers a disk that hangs, and threads that all wait for
        // it.
        Some(timeout(READ_WAIT, reading).await.ok()?.unwrap_or(broken))
    }

    /// Revalidates an entry in the background, once at a time. While the disk
    /// is busy it does nothing: the entry grows old, and the next request waits
    /// for the read.
    fn refresh(&self, key: &KeyRef<'_>, folder: Folder<'_>, entry: &Arc<Entry>) {
        let Some(claim) = entry.claim() else { return };
        let Some(permit) = self.0.reads.of(folder).try_permit() else {
            return;
        };
        let (shared, key) = (Arc::clone(&self.0), key.to_key());
        let tenant = folder.tenant.clone();
        spawn_blocking(move || {
            let known = claim.entry();
            shared.load(key, &tenant, Some(known), permit);
        });
    }
}

/// Folder that files are served from: a root, for one host of a tenant.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub(crate) root: &'a Root,
    pub(crate) host: &'a HostName,
    pub(crate) tenant: &'a Tenant,
}

/// Request for a file.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) head: &'a Parts,
    /// Path as the client sent it.
    pub(crate) path: &'a SitePath<'a>,
    /// Path below the root, as the rule rewrote it.
    pub(crate) rewritten: &'a SitePath<'a>,
    /// Options of the rule.
    pub(crate) options: Option<&'a RuleOptions>,
}

impl Asked<'_> {
    /// Returns the paths that the rule tries; none for the request's own.
    fn tried(&self) -> &[Candidate] {
        self.options.map_or(&[], |options| &options.try_files)
    }

    /// Returns the names of files that stand for a folder; none for the usual ones.
    fn index(&self) -> &[Box<str>] {
        self.options.map_or(&[], |options| &options.index)
    }

    /// Returns the rules for `Cache-Control`.
    fn cache(&self) -> &[CacheRule] {
        self.options.map_or(&[], |options| &options.cache)
    }

    /// Redirects to the directory that the request names without a slash at its
    /// end.
    fn with_slash(&self) -> Response<Body> {
        let location = path::with_slash(self.path, self.head.uri.query());
        redirect_to(StatusCode::PERMANENT_REDIRECT, &location)
    }
}

/// Reasons why a path has no file.
enum NoFile {
    /// A directory, whose path has no slash at its end.
    Directory,
    Missing,
}

enum Found {
    Entry(Arc<Entry>),
    Large {
        file: Box<load::LargeFile>,
        /// Read permit; it bounds the open files that have no permit of
        /// [`Permits`] yet.
        _permit: Box<ReadPermit>,
    },
    /// A file that was large when it was last opened, and was not opened now.
    Noted,
    Refused(StatusCode),
}

/// How long a request waits for a read permit, and then for the disk.
const READ_WAIT: Duration = Duration::from_secs(10);
/// How long a request waits if a cached file can be served instead: longer than
/// a busy disk takes, shorter than a person notices.
const KNOWN_WAIT: Duration = Duration::from_millis(500);
/// Bytes of the cache of a process that accepts no more. A shard of it may be too small for
/// the largest files, which are read from the disk each time then.
const GIVEN_BACK: usize = 2 << 20;

#[cfg(test)]
mod tests;
