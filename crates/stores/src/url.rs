//! URLs of stores, as `[store] url` has them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::announced::Announced;
use crate::files::Pattern;
#[cfg(feature = "http")]
use crate::http::Template;
pub use crate::place::{StoreServer, path_below};
#[cfg(feature = "postgres")]
use crate::postgres;
#[cfg(feature = "redis")]
use crate::redis::RedisUrl;

/// The parsed URL of a store. [`crate::open()`] opens it.
#[derive(Clone, Debug)]
pub struct Url(pub(crate) Kind);

/// The kinds of store. What depends on the kind is a `match` over all of them
/// here and in open.rs, so that the compiler names each place for a new one, but
/// [`Url::announced`].
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
        let known = SCHEMES.iter().find(|(known, _)| *known == scheme);
        let Some((_, feature)) = known else {
            return Err(format!("{scheme:?} is no kind of store; {EXAMPLE}"));
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
            _ => {
                return Err(format!(
                    "this build has no such stores; build it with the feature `{feature}`"
                ));
            }
        };
        Ok(Self(kind))
    }

    /// Returns the URL of an embedded catalog.
    #[must_use]
    pub fn sqlite(path: PathBuf) -> Self {
        Self(Kind::Sqlite(path))
    }

    /// Tells whether the store is a catalog: commands list and write it, and it keeps
    /// a log of what changed. Others write all other stores.
    ///
    /// Commands and `store backup` refuse a store that is none. `[cache] redis`
    /// stands only before a catalog, whose log tells which copies are old.
    /// [`crate::open()`] returns a catalog exactly if this is true.
    #[must_use]
    pub fn is_catalog(&self) -> bool {
        match &self.0 {
            Kind::Sqlite(_) => true,
            Kind::Files(_) => false,
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => true,
            #[cfg(feature = "http")]
            Kind::Http(_) => false,
            #[cfg(feature = "redis")]
            Kind::Redis(_) => false,
        }
    }

    /// Tells whether the store lies on this machine, so that it is there whenever the
    /// machine is up.
    ///
    /// A local store has no disk cache: its copies would lie beside it. A Redis
    /// cache before it is ignored: a round trip takes longer than a read. A server
    /// opens a local catalog strictly at the start, and starts without one
    /// elsewhere if copies on disk suffice.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.servers().is_empty()
    }

    /// Returns the file of an embedded catalog.
    ///
    /// The default of `[keys] master` lies beside this file, sites don't serve
    /// the file, and `store backup` copies it as a whole.
    #[must_use]
    pub fn database(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Sqlite(path) => Some(path),
            Kind::Files(_) => None,
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => None,
            #[cfg(feature = "http")]
            Kind::Http(_) => None,
            #[cfg(feature = "redis")]
            Kind::Redis(_) => None,
        }
    }

    /// Lists the folders in which the private keys of a `files:` store lie.
    ///
    /// The configuration refuses a `[site] root` that holds one of these.
    #[must_use]
    pub fn key_folders(&self) -> Vec<PathBuf> {
        match &self.0 {
            Kind::Files(pattern) => pattern.folders(),
            Kind::Sqlite(_) => Vec::new(),
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => Vec::new(),
            #[cfg(feature = "http")]
            Kind::Http(_) => Vec::new(),
            #[cfg(feature = "redis")]
            Kind::Redis(_) => Vec::new(),
        }
    }

    /// Returns the servers of the store that its URL names.
    ///
    /// No upstream of a host record may be at one of them, or have the port of one that
    /// speaks no HTTP.
    #[must_use]
    pub fn servers(&self) -> Vec<StoreServer> {
        match &self.0 {
            Kind::Sqlite(_) | Kind::Files(_) => Vec::new(),
            #[cfg(feature = "postgres")]
            Kind::Postgres(url) => url.servers(),
            #[cfg(feature = "http")]
            Kind::Http(template) => {
                vec![StoreServer::Https(template.host.clone(), template.port)]
            }
            #[cfg(feature = "redis")]
            Kind::Redis(url) => url.servers(),
        }
    }

    /// Returns the ports of the nodes that the store's servers lead to; none for kinds other
    /// than Redis.
    #[must_use]
    pub fn announced(&self) -> Option<&Announced> {
        match &self.0 {
            #[cfg(feature = "redis")]
            Kind::Redis(url) => Some(url.announced()),
            #[allow(unreachable_patterns, reason = "without Redis, all are")]
            _ => None,
        }
    }

    /// Returns the file with the key that this server shows to the store.
    ///
    /// Sites don't serve this file.
    #[must_use]
    pub fn client_key(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Sqlite(_) | Kind::Files(_) => None,
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => None,
            #[cfg(feature = "http")]
            Kind::Http(_) => None,
            #[cfg(feature = "redis")]
            Kind::Redis(url) => url.key_file(),
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

/// Schemes of URLs, each with the feature that its kind needs; every build has
/// those without one. [`Url::parse`] takes no other. A test compares the schemes
/// with README.md and docs/configuration.md.
const SCHEMES: &[(&str, &str)] = &[
    ("sqlite", ""),
    ("files", ""),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("https", "http"),
    ("http", "http"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("redis+sentinel", "redis"),
    ("redis+cluster", "redis"),
];

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

    #[test]
    fn the_documentation_lists_each_scheme() {
        // Other spellings, of which docs/stores.md and the row of https:// tell.
        let aliases = ["postgresql", "http"];
        let schemes = SCHEMES.iter().map(|(scheme, _)| *scheme);
        for scheme in schemes.filter(|scheme| !aliases.contains(scheme)) {
            for (file, text) in [
                ("README.md", include_str!("../../../README.md")),
                (
                    "docs/configuration.md",
                    include_str!("../../../docs/configuration.md"),
                ),
            ] {
                let mut rows = text.lines().filter(|line| line.starts_with('|'));
                let listed = rows.any(|row| row.contains(&format!("`{scheme}:")));
                assert!(listed, "no table of {file} has `{scheme}:…`");
            }
        }
    }
}
