//! Where hosts and secrets are read from.

use std::path::{Path, PathBuf};

use sekisho_certs::store::postgres;

/// `[store] url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
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
}

impl StoreUrl {
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
            _ if LATER.contains(&scheme) => Err(format!(
                "stores of the kind {scheme}:// are not built yet; {EXAMPLE}"
            )),
            _ => Err(format!("{scheme:?} is no kind of store; {EXAMPLE}")),
        }
    }
}

/// `[listen] admin_token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
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
}

/// A path of the configuration: absolute, or below the folder of its file.
pub(crate) fn path_below(base: &Path, path: &str) -> Result<PathBuf, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the path must not be empty nor hold a NUL".into());
    }
    Ok(base.join(path))
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

const LATER: [&str; 5] = [
    "redis",
    "rediss",
    "redis+sentinel",
    "redis+cluster",
    "https",
];
const EXAMPLE: &str =
    "write \"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\" or \"files:PATTERN\"";
