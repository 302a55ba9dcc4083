//! Reads paths from the disk. Every function here blocks.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::cache::{Form, Key, What};
use super::kind::content_type;
use crate::coding::BY_CODING;
use crate::site::body::NOSNIFF;
use crate::site::{Coding, Guard, Refusal, Root, locate_beneath, open_beneath};

/// Result of reading a path.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// The known file, unchanged.
    Unchanged,
    /// Result to cache. A file has at most [`SMALL`] bytes, read into memory.
    Cached(What),
    /// A file that is read while it is sent.
    Large(LargeFile),
    /// No regular file, or, with the error, one without read permission.
    Forbidden(Option<io::Error>),
    /// A root or file that the guard refuses.
    Refused(Refusal),
    /// An error of the system.
    Failed(io::Error),
}

/// Whole file in memory.
#[derive(Debug)]
pub(crate) struct SmallFile {
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    /// None if the file may have changed while, or just before, it was read.
    pub(crate) identity: Option<Identity>,
}

/// Open file, which is read while it is sent.
#[derive(Debug)]
pub(crate) struct LargeFile {
    pub(crate) head: Head,
    pub(crate) file: File,
}

/// Headers and validators of a file.
#[derive(Debug)]
pub(crate) struct Head {
    /// Bytes of the whole file.
    pub(crate) len: u64,
    /// The entity tag with its quotes.
    pub(crate) etag: HeaderValue,
    /// Last write in seconds since the Unix epoch; None if the date can't be
    /// sent.
    pub(crate) modified: Option<u64>,
    /// All headers of a 200, ready to be copied.
    pub(crate) headers: HeaderMap,
}

/// Identity of a file's state, which changes when the file is written or
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Reads a path, if `guard` allows it to be served.
pub(crate) fn load(key: &Key, known: Option<Identity>, guard: &Guard) -> Loaded {
    let (root, path) = (&key.root, &*key.path);
    let index = path.is_empty() || path.ends_with('/');
    let read = guard
        .open_root(root, Path::new(&*root.template.fill(&key.host)))
        .and_then(|folder| {
            let folder = match folder {
                Ok(folder) => folder,
                Err(refusal) => return Ok(Loaded::Refused(refusal)),
            };
            let name = format!("{path}{}", if index { INDEX } else { "" });
            let file = match key.form {
                // Only the FastCGI server must be allowed to read it.
                Form::Script => locate_beneath(&folder, Path::new(path))?,
                Form::Plain | Form::Precompressed(_) => open_beneath(&folder, &name)?,
                Form::Compressed(..) => unreachable!("it is made of the file in memory"),
            };
            let metadata = file.metadata()?;
            if let Err(refusal) = guard.check_file(root, &file, &metadata)? {
                return Ok(Loaded::Refused(refusal));
            }
            if key.form == Form::Script {
                let is_file = metadata.is_file();
                let what = if is_file { What::Script } else { What::Missing };
                Ok(Loaded::Cached(what))
            } else if metadata.is_dir() {
                Ok(Loaded::Cached(match index {
                    true => What::Missing,
                    false => What::Directory,
                }))
            } else if !metadata.is_file() {
                Ok(Loaded::Forbidden(None))
            } else if let Form::Precompressed(coding) = key.form {
                load_copy(&folder, (root, &name, coding), &metadata, known, guard)
            } else if known == Some(Identity::of(&metadata)) {
                Ok(Loaded::Unchanged)
            } else {
                read(file, &metadata, (&name, None))
            }
        });
    read.unwrap_or_else(refusal)
}

/// Reads the copy of a file that lies precompressed beside it, unless it is older than the file,
/// or must not be served: then the file itself is looked for.
fn load_copy(
    folder: &OwnedFd,
    (root, name, coding): (&Root, &str, Coding),
    of_file: &Metadata,
    known: Option<Identity>,
    guard: &Guard,
) -> io::Result<Loaded> {
    let none = Loaded::Cached(What::NoCopy);
    let Ok(copy) = open_beneath(folder, &format!("{name}{}", coding.extension())) else {
        return Ok(none);
    };
    let of_copy = copy.metadata()?;
    let written = |metadata: &Metadata| (metadata.mtime(), metadata.mtime_nsec());
    let is_served = of_copy.is_file()
        && written(&of_copy) >= written(of_file)
        && guard.check_file(root, &copy, &of_copy)?.is_ok();
    if !is_served {
        Ok(none)
    } else if known == Some(Identity::of(&of_copy)) {
        Ok(Loaded::Unchanged)
    } else {
        read(copy, &of_copy, (name, Some(coding)))
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Head {
    /// Makes the head of a file with this body, or, with a coding, of a copy in it. Shares
    /// `body`, behind which it writes the values that are no constants. Each answer from memory
    /// counts references to the body and to each such value: in a single buffer, they are a
    /// single count, on one cache line that workers take from each other.
    fn new(
        metadata: &Metadata,
        (name, coding): (&str, Option<Coding>),
        now: SystemTime,
        settled: bool,
        mut body: Vec<u8>,
    ) -> (Self, Bytes) {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        // A Last-Modified must not be later than the answer's Date (RFC 9110,
        // section 8.8.2.1).
        let modified = u64::try_from(metadata.mtime())
            .ok()
            .filter(|seconds| *seconds <= since.as_secs());
        let mut write = |text: &str| {
            let start = body.len();
            body.extend_from_slice(text.as_bytes());
            start..body.len()
        };
        let etag = write(&entity_tag(metadata, coding, settled));
        let len = write(&metadata.len().to_string());
        let date = modified
            .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
            .map(|time| write(&httpdate::fmt_http_date(time)));
        let shared = Bytes::from(body);
        let body = shared.slice(..etag.start);
        let value = |text: Range<usize>| {
            HeaderValue::from_maybe_shared(shared.slice(text)).expect("a text of visible ASCII")
        };
        let etag = value(etag);
        // For seven fields the index has 16 places: each answer's copy of the map then
        // takes an operator's field, or the date of HTTP/2, without hashing all again.
        let mut headers = HeaderMap::with_capacity(7);
        headers.insert(CONTENT_TYPE, content_type(name));
        headers.insert(CONTENT_LENGTH, value(len));
        headers.insert(ETAG, etag.clone());
        if let Some(date) = date {
            headers.insert(LAST_MODIFIED, value(date));
        }
        if let Some(coding) = coding {
            // Ranges are of the file itself alone.
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
            headers.insert(VARY, BY_CODING);
        } else {
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        let head = Self {
            len: metadata.len(),
            etag,
            modified,
            headers,
        };
        (head, body)
    }
}

/// Reads a file, or a copy of it in a coding, by the file's name.
fn read(file: File, metadata: &Metadata, name: (&str, Option<Coding>)) -> io::Result<Loaded> {
    let now = SystemTime::now();
    let settled = is_settled(metadata, now);
    if metadata.len() > SMALL {
        let (head, _) = Head::new(metadata, name, now, settled, Vec::new());
        return Ok(Loaded::Large(LargeFile { head, file }));
    }
    let len = usize::try_from(metadata.len()).expect("small");
    let mut body = Vec::with_capacity(len + TEXTS);
    body.resize(len, 0);
    file.read_exact_at(&mut body, 0)?;
    let identity = Identity::of(metadata);
    let untouched = settled && Identity::of(&file.metadata()?) == identity;
    let (mut head, body) = Head::new(metadata, name, now, untouched, body);
    // A copy of a map takes memory for the values that it has, not for seven.
    head.headers = head.headers.clone();
    Ok(Loaded::Cached(What::File(Box::new(SmallFile {
        head,
        body,
        identity: untouched.then_some(identity),
    }))))
}

/// Makes an entity tag from length and last write, without the inode: servers
/// with copies of the same files agree. It is weak while another write could
/// still get the same time (RFC 9110, section 8.8.1). A precompressed copy has its
/// coding in the tag, for two of them may have one length and time.
fn entity_tag(metadata: &Metadata, coding: Option<Coding>, settled: bool) -> String {
    let weak = if settled { "" } else { "W/" };
    let (len, seconds, nanos) = (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding.as_str()));
    format!("{weak}\"{len:x}-{seconds:x}-{nanos:x}{dash}{coding}\"")
}

fn is_settled(metadata: &Metadata, now: SystemTime) -> bool {
    metadata
        .modified()
        .is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age > TICK))
}

fn refusal(error: io::Error) -> Loaded {
    match Errno::from_io_error(&error) {
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            // The path leads out of the root.
            | Errno::XDEV
            | Errno::NAMETOOLONG,
        ) => Loaded::Cached(What::Missing),
        Some(Errno::ACCESS | Errno::PERM) => Loaded::Forbidden(Some(error)),
        Some(Errno::NXIO | Errno::NODEV) => Loaded::Forbidden(None),
        _ => Loaded::Failed(error),
    }
}

const INDEX: &str = "index.html";
/// Largest file that is cached. It covers the parts of most pages, and a
/// hundred of them leave room in a cache of 16 MiB.
pub(crate) const SMALL: u64 = 64 << 10;
/// Room for an entity tag, a length and a date: 74 bytes at most for a small file.
pub(super) const TEXTS: usize = 80;
/// Age from which a file's time is unambiguous. File times move in ticks of 1
/// to 10 ms: two writes within a few ticks may get equal times.
const TICK: Duration = Duration::from_millis(50);
