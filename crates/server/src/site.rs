//! Sites: how requests to a host are answered.

mod allow;
mod guard;
mod root;

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use sekisho_certs::{HostPattern, Site as StoredSite};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::redirect::Redirect;
use crate::template::Template;

pub use crate::files::{MAX_OPEN_FILES, OpenFiles};
pub use allow::AllowedRoots;
pub use guard::{Guard, OwnFiles, Refusal, Refusals};
pub(crate) use root::Root;

/// Checked site of a host record or of `[site]`.
///
/// The document of format 1 is a JSON object with exactly one of
///
/// - `{"root": "/srv/www/{host}"}`: files below that absolute path;
/// - `{"redirect": "https://www.example.com", "status": 308}`: elsewhere, with
///   status 301, 302, 307 or 308 (the default). A target without a path keeps
///   the request's path and query; one with a path, even `/`, is used as it
///   stands;
/// - `{"status": 404}`: that status, 400 to 599, for every request.
///
/// `{host}` in a root or a redirect stands for the name that was asked for.
#[derive(Clone, Debug)]
pub struct Site(Arc<Kind>);

impl Site {
    /// Parses the document of a host record.
    ///
    /// # Errors
    /// If the format is unknown, or the document is invalid.
    pub fn parse(stored: &StoredSite) -> Result<Self, SiteError> {
        if stored.format != FORMAT {
            return Err(SiteError::Format(stored.format));
        }
        let raw: RawSite = serde_json::from_str(&stored.json)
            .map_err(|error| SiteError::Document(error.to_string()))?;
        raw.check(None)
    }

    /// Returns the bytes that the site takes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = match &*self.0 {
            Kind::Files(root) => root.weight(),
            Kind::Redirect(redirect) => redirect.weight(),
            Kind::Status(_) => 0,
        };
        size_of::<Kind>() + ARC_COUNTERS + texts
    }

    /// Makes the site that answers every request with 404.
    #[must_use]
    pub fn not_found() -> Self {
        Self(Arc::new(Kind::Status(StatusCode::NOT_FOUND)))
    }

    /// Makes the site that answers every request with 503.
    pub(crate) fn unavailable() -> Self {
        Self(Arc::new(Kind::Status(StatusCode::SERVICE_UNAVAILABLE)))
    }

    /// Returns what the site does with a request.
    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// Returns the folder that the site serves files from, as it was written.
    #[must_use]
    pub fn root(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Files(root) => Some(root.text()),
            Kind::Redirect(_) | Kind::Status(_) => None,
        }
    }

    /// Returns why `guard` refuses the site, as far as that is known before a
    /// request. Blocks: it reads the folder.
    #[must_use]
    pub fn refusal(&self, guard: &Guard) -> Option<Refusal> {
        match &*self.0 {
            Kind::Files(root) => guard.inspect(root),
            Kind::Redirect(_) | Kind::Status(_) => None,
        }
    }

    /// Asks `guard` whether a host record may have the site. If not, counts and
    /// logs the refusal and returns false.
    pub(crate) fn admit(&self, pattern: &HostPattern, guard: &Guard) -> bool {
        match &*self.0 {
            Kind::Files(root) => guard.admit(pattern, root),
            Kind::Redirect(_) | Kind::Status(_) => true,
        }
    }
}

/// Keys of a site as written, in JSON or in `[site]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSite {
    root: Option<String>,
    redirect: Option<String>,
    status: Option<i64>,
    upstream: Option<IgnoredAny>,
}

impl RawSite {
    /// Checks the keys. `base` is the configuration's folder for `[site]`, None
    /// for a host record; a relative root lies below it.
    ///
    /// # Errors
    /// [`SiteError`] says which key is wrong, and what to write.
    pub fn check(self, base: Option<&Path>) -> Result<Site, SiteError> {
        if self.upstream.is_some() {
            return Err(SiteError::NotBuilt("upstream"));
        }
        let kind = match (self.root, self.redirect, self.status) {
            (Some(root), None, None) => Kind::Files(root_of(&root, base)?),
            (None, Some(target), status) => Kind::Redirect(
                Redirect::parse(&target, status)
                    .map_err(|(key, problem)| SiteError::Value { key, problem })?,
            ),
            (None, None, Some(status)) => Kind::Status(error_status(status)?),
            _ => return Err(SiteError::Choice),
        };
        Ok(Site(Arc::new(kind)))
    }
}

/// Reasons why a site can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// A document of another version.
    #[error(
        "the site has format {0}, this version reads format 1; write it again with `sekisho host set`, or upgrade"
    )]
    Format(u32),
    /// The document is no JSON, or has unknown fields.
    #[error("the site's document can't be read: {0}")]
    Document(String),
    /// A kind of site that this version lacks.
    #[error("`{0}` is not built yet; use `root`, `redirect` or `status`")]
    NotBuilt(&'static str),
    /// No kind of site, or several.
    #[error("a site has exactly one of `root`, `redirect` (with its `status`) and `status`")]
    Choice,
    /// A value is wrong.
    #[error("`{key}`: {problem}")]
    Value {
        /// The key of the value.
        key: &'static str,
        /// What is wrong, and what to write.
        problem: String,
    },
}

impl SiteError {
    /// Returns the wrong key, if it is a single one.
    #[must_use]
    pub fn key(&self) -> Option<&'static str> {
        match self {
            Self::NotBuilt(key) | Self::Value { key, .. } => Some(key),
            Self::Format(_) | Self::Document(_) | Self::Choice => None,
        }
    }
}

/// Ways to answer requests.
#[derive(Debug)]
pub(crate) enum Kind {
    Files(Root),
    Redirect(Redirect),
    Status(StatusCode),
}

/// Checks a root. One with a `base` is the operator's own, from `[site]`.
fn root_of(root: &str, base: Option<&Path>) -> Result<Root, SiteError> {
    let wrong = |problem| SiteError::Value {
        key: "root",
        problem,
    };
    if root.is_empty() || root.contains('\0') {
        return Err(wrong("a path must not be empty nor hold a NUL".into()));
    }
    let path = base.map_or_else(|| Path::new(root).to_owned(), |base| base.join(root));
    if !path.is_absolute() {
        return Err(wrong(format!(
            "{root:?} is relative; write an absolute path, such as \"/srv/www/{{host}}\""
        )));
    }
    let path = path
        .to_str()
        .ok_or_else(|| wrong(format!("{} is not UTF-8", path.display())))?;
    let template = Template::parse(path).map_err(wrong)?;
    Ok(match base {
        Some(_) => Root::of_operator(template),
        None => Root::of_record(template),
    })
}

fn error_status(status: i64) -> Result<StatusCode, SiteError> {
    u16::try_from(status)
        .ok()
        .filter(|code| (400..600).contains(code))
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or_else(|| SiteError::Value {
            key: "status",
            problem: format!("{status} is not a status from 400 to 599, such as 404"),
        })
}

/// Document format that this version reads.
const FORMAT: u32 = 1;
/// Bytes of an `Arc`'s two counters.
const ARC_COUNTERS: usize = 2 * size_of::<usize>();
