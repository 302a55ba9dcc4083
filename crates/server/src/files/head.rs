//! Headers and validators of files.

use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

use super::kind::content_type;
use crate::coding::BY_CODING;
use crate::site::Coding;
use crate::site::body::NOSNIFF;

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

impl Head {
    /// Makes the head of a file with this body, or, with a coding, of a copy in it. Shares
    /// `body`, behind which it writes the values that are no constants. Each answer from memory
    /// counts references to the body and to each such value: in a single buffer, they are a
    /// single count, on one cache line that workers take from each other.
    pub(super) fn new(
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

/// Room for an entity tag, a length and a date: 74 bytes at most for a small file.
pub(super) const TEXTS: usize = 80;
