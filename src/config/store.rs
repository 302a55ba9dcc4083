//! Where hosts and secrets are read from.

use std::env;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sekisho_stores::http::Template;
use sekisho_stores::postgres;
use sekisho_stores::redis::RedisUrl;
use zeroize::Zeroizing;

use sekisho_server::private;

/// `[store] url`.
#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {
    /// `sqlite:PATH`: the embedded catalog.
    Sqlite(PathBuf),
    /// `postgres://…`: the catalog for many servers.
    Postgres(Box<postgres::Url>),
    /// `files:PATTERN`: PEM files. One pattern is a folder with
    /// `fullchain.pem` and `privkey.pem`; two, separated by a comma, are chain
    /// and key. `{host}` stands for the name.
    Files {
        /// The one or two patterns as one text, each an absolute path.
        pattern: String,
    },
    /// `https://…/{host}`: an endpoint that answers with PEM bundles.
    Http {
        /// The URL.
        template: Template,
        /// `[store] token`: where the endpoint's bearer token is read.
        token: Option<TokenSource>,
        /// `[store] ca`: a file of the certificates that alone are believed.
        ca: Option<PathBuf>,
    },
    /// `redis://` and its relatives: PEM strings in Redis or Valkey.
    Redis(Box<RedisUrl>),
}

/// As the operator knows it, without passwords.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
            Self::Files { pattern } => write!(f, "files:{pattern}"),
            Self::Http { template, .. } => template.fmt(f),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

impl StoreUrl {
    /// Whether it lies elsewhere, and may be down while this machine is up.
    #[must_use]
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::Postgres(_) | Self::Http { .. } | Self::Redis(_) => true,
            Self::Sqlite(_) | Self::Files { .. } => false,
        }
    }

    /// Reads the URL of a store; relative paths are taken below `base`.
    ///
    /// # Errors
    /// Says what is wrong with it, without a password.
    pub(crate) fn parse(url: &str, base: &Path) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(format!("{url:?} is no store; {EXAMPLE}"));
        };
        match scheme {
            "sqlite" => Ok(Self::Sqlite(path_below(base, rest)?)),
            "files" => files(rest, base),
            "postgres" | "postgresql" => {
                let parsed = postgres::Url::parse(url, base)?;
                Ok(Self::Postgres(Box::new(parsed)))
            }
            "https" | "http" => http(url),
            _ if RedisUrl::is_scheme(scheme) => {
                Ok(Self::Redis(Box::new(RedisUrl::parse(url, base)?)))
            }
            _ => Err(format!("{scheme:?} is no kind of store; {EXAMPLE}")),
        }
    }
}

/// `[listen] admin_token` and `[store] token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// `file:PATH`.
    File(PathBuf),
    /// `env:NAME`: an environment variable.
    Env(String),
}

impl TokenSource {
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) => Ok(Self::File(path_below(base, path)?)),
            Some(("env", name)) => Ok(Self::Env(variable(name)?)),
            // The text may be the token itself: it is not repeated.
            _ => Err("this is no source of a token; write \"file:PATH\" or \"env:NAME\"".into()),
        }
    }

    /// Reads its text. Of a file only the first `most` bytes, so that this is
    /// more than a token may have. Only its owner may be able to read a file.
    ///
    /// # Errors
    /// Names the file or the variable, never what it holds.
    pub(crate) fn read(&self, most: usize) -> io::Result<Zeroizing<String>> {
        let text = match self {
            Self::File(file) => read_file(file, most),
            Self::Env(name) => match env::var(name) {
                Ok(text) => Ok(Zeroizing::new(text)),
                // The error itself would show what the variable holds.
                Err(env::VarError::NotUnicode(_)) => Err(io::Error::other("is not UTF-8")),
                Err(error) => Err(io::Error::other(error)),
            },
        };
        text.map_err(|error| io::Error::new(error.kind(), format!("{self}: {error}")))
    }
}

impl fmt::Display for TokenSource {
    /// The path or the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Env(name) => f.write_str(name),
        }
    }
}

/// A path of the configuration: absolute, or below the folder of its file.
pub(crate) fn path_below(base: &Path, path: &str) -> Result<PathBuf, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the path must not be empty nor hold a NUL".into());
    }
    Ok(base.join(path))
}

fn read_file(file: &Path, most: usize) -> io::Result<Zeroizing<String>> {
    // Room for all of it at once: growing would leave copies.
    let mut text = Zeroizing::new(String::with_capacity(most + 1));
    private::open(file)?
        .take(most as u64)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// A token and a CA are keys of their own.
fn http(url: &str) -> Result<StoreUrl, String> {
    let template = url.parse();
    Ok(StoreUrl::Http {
        template: template.map_err(|problem| format!("this URL of a store {problem}"))?,
        token: None,
        ca: None,
    })
}

fn files(patterns: &str, base: &Path) -> Result<StoreUrl, String> {
    let parts: Vec<&str> = patterns.split(',').collect();
    if parts.len() > 2 {
        return Err("a files store has one pattern, or two (chain and key) with a comma".into());
    }
    let mut paths = Vec::new();
    for part in parts {
        if !part.contains("{host}") {
            return Err(format!(
                "{part:?} has no place for the name; write {{host}}, as in \
                 \"files:/etc/letsencrypt/live/{{host}}\""
            ));
        }
        let path = path_below(base, part)?;
        let path = path.into_os_string().into_string();
        paths.push(path.map_err(|path| format!("{} is not UTF-8", path.display()))?);
    }
    Ok(StoreUrl::Files {
        pattern: paths.join(","),
    })
}

fn variable(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains(['=', '\0', ' ']) {
        return Err(format!("{name:?} is no name of an environment variable"));
    }
    Ok(name.to_owned())
}

const EXAMPLE: &str = "write \"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\", \
                       \"files:PATTERN\", \"redis://HOST\" or \"https://SERVER/{host}\"";

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_read_from_a_file_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let source = TokenSource::File(file.clone());
        fs::write(&file, "0123456789abcdef\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(*source.read(1024).unwrap(), "0123456789abcdef\n");
        assert_eq!(*source.read(4).unwrap(), "0123");
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        let error = source.read(1024).unwrap_err().to_string();
        assert!(
            error.contains("token: others may read it (mode 604)"),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        let error = source.read(1024).unwrap_err().to_string();
        assert!(error.contains("token: No such file"), "{error}");
        let missing = TokenSource::Env("SEKISHO_TEST_UNSET".into());
        let error = missing.read(1024).unwrap_err().to_string();
        assert!(
            error.contains("SEKISHO_TEST_UNSET: environment variable not found"),
            "{error}"
        );
    }
}
