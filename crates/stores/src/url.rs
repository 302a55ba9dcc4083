//! URLs of stores, as `[store] url` has them.

#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod parts;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::Pattern;
#[cfg(feature = "http")]
use crate::http::Template;
#[cfg(feature = "postgres")]
use crate::postgres;
#[cfg(feature = "redis")]
use crate::redis::RedisUrl;

/// The parsed URL of a store. [`crate::open()`] opens it.
#[derive(Clone, Debug)]
pub struct Url(pub(crate) Kind);

/// The kinds of store.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `sqlite:PATH`: the embedded catalog.
    Sqlite(PathBuf),
    /// `files:PATTERN`: PEM files.
    Files(Pattern),
    /// `postgres://…`: the catalog for many servers.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Url>),
    /// `https://…/{host}`: an endpoint that answers with PEM bundles.
    #[cfg(feature = "http")]
    Http(Template),
    /// `redis://` and its relatives: PEM strings in Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(Box<RedisUrl>),
}

impl Url {
    /// Parses the URL of a store; relative paths begin at `base`.
    ///
    /// # Errors
    /// Says what is wrong with it, without a password; for a kind that this
    /// build lacks, which feature adds it.
    pub fn parse(url: &str, base: &Path) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(format!("{url:?} is no store; {EXAMPLE}"));
        };
        let kind = match scheme {
            "sqlite" => Kind::Sqlite(path_below(base, rest)?),
            "files" => Kind::Files(Pattern::parse(rest, base)?),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => Kind::Postgres(Box::new(postgres::Url::parse(url, base)?)),
            #[cfg(feature = "http")]
            "https" | "http" => {
                let template = url.parse();
                Kind::Http(template.map_err(|why| format!("this URL of a store {why}"))?)
            }
            #[cfg(feature = "redis")]
            "redis" | "rediss" | "redis+sentinel" | "redis+cluster" => {
                Kind::Redis(Box::new(RedisUrl::parse(url, base)?))
            }
            _ => return Err(refusal(scheme)),
        };
        Ok(Self(kind))
    }

    /// Returns the URL of an embedded catalog.
    #[must_use]
    pub fn sqlite(path: PathBuf) -> Self {
        Self(Kind::Sqlite(path))
    }

    /// Whether the store is a catalog: commands write it, and it tells what
    /// changed. Others write all other stores.
    #[must_use]
    pub fn is_catalog(&self) -> bool {
        match &self.0 {
            Kind::Sqlite(_) => true,
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => true,
            _ => false,
        }
    }

    /// Whether the store lies on this machine, so that it is there whenever the
    /// machine is up.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.0, Kind::Sqlite(_) | Kind::Files(_))
    }

    /// Returns the file of an embedded catalog.
    #[must_use]
    pub fn database(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Sqlite(path) => Some(path),
            _ => None,
        }
    }

    /// Lists the folders in which the private keys of a `files:` store lie.
    #[must_use]
    pub fn key_folders(&self) -> Vec<PathBuf> {
        match &self.0 {
            Kind::Files(pattern) => pattern.folders(),
            _ => Vec::new(),
        }
    }

    /// Returns the file with the key that this server shows to the store.
    #[must_use]
    pub fn client_key(&self) -> Option<&Path> {
        match &self.0 {
            #[cfg(feature = "redis")]
            Kind::Redis(url) => url.key_file(),
            _ => None,
        }
    }
}

/// Shows the URL without passwords.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Kind::Files(pattern) => write!(f, "files:{pattern}"),
            #[cfg(feature = "postgres")]
            Kind::Postgres(url) => url.fmt(f),
            #[cfg(feature = "http")]
            Kind::Http(template) => template.fmt(f),
            #[cfg(feature = "redis")]
            Kind::Redis(url) => url.fmt(f),
        }
    }
}

/// Takes a path of the configuration: absolute, or below `base`.
///
/// # Errors
/// If it is empty or holds a NUL.
pub fn path_below(base: &Path, path: &str) -> Result<PathBuf, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the path must not be empty nor hold a NUL".into());
    }
    Ok(base.join(path))
}

/// Says why a scheme is not taken: it is unknown, or its feature is off.
fn refusal(scheme: &str) -> String {
    let feature = match scheme {
        "postgres" | "postgresql" => "postgres",
        "https" | "http" => "http",
        "redis" | "rediss" | "redis+sentinel" | "redis+cluster" => "redis",
        _ => return format!("{scheme:?} is no kind of store; {EXAMPLE}"),
    };
    format!("this build has no such stores; build it with the feature `{feature}`")
}

const EXAMPLE: &str = "write \"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\", \
                       \"files:PATTERN\", \"redis://HOST\" or \"https://SERVER/{host}\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Url, String> {
        Url::parse(url, Path::new("/etc/sekisho"))
    }

    #[test]
    fn each_kind_says_what_it_is_and_where() {
        for (url, shown, is_catalog, is_local) in [
            ("sqlite:a.db", "sqlite:/etc/sekisho/a.db", true, true),
            ("files:c/{host}", "files:/etc/sekisho/c/{host}", false, true),
            ("postgres://u:s3same@h/d", "postgres://", true, false),
            ("https://h/{host}", "https://h/{host}", false, false),
            ("rediss://:s3same@h", "rediss://:***@h", false, false),
        ] {
            let lacks = |feature| {
                let error = parse(url).unwrap_err();
                assert!(error.contains(&format!("feature `{feature}`")), "{error}");
            };
            match url.split(':').next().unwrap() {
                "postgres" if !cfg!(feature = "postgres") => lacks("postgres"),
                "https" if !cfg!(feature = "http") => lacks("http"),
                "rediss" if !cfg!(feature = "redis") => lacks("redis"),
                _ => {
                    let url = parse(url).unwrap();
                    assert!(url.to_string().starts_with(shown), "{url}");
                    assert!(!format!("{url} {url:?}").contains("s3same"), "{url:?}");
                    assert_eq!((url.is_catalog(), url.is_local()), (is_catalog, is_local));
                }
            }
        }
    }

    #[test]
    fn the_folders_of_keys_are_known() {
        let folders = |url| parse(url).unwrap().key_folders();
        assert_eq!(
            folders("files:/c/{host}.crt, k/{host}.key"),
            [Path::new("/c"), Path::new("/etc/sekisho/k")]
        );
        assert_eq!(folders("files:/live/{host}"), [Path::new("/live")]);
        assert!(folders("sqlite:a.db").is_empty());
    }
}
