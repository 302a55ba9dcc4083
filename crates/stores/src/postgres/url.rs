//! Where the database is, as the configuration says it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// A parsed `postgres://` URL. It shows itself without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub(super) config: Config,
    pub(super) security: Security,
    /// A PEM file of authorities to trust instead of the system's.
    pub(super) root: Option<PathBuf>,
    pub(super) pgbouncer: bool,
    /// Connections at most, without the one that listens.
    pub(super) pool: usize,
    shown: String,
}

/// How the connection is secured: `sslmode`, as libpq means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// In the clear.
    Disable,
    /// TLS if the server offers it, with whatever certificate.
    Prefer,
    /// TLS with whatever certificate, or one of the given authorities.
    Require,
    /// TLS with a certificate of a trusted authority, whatever its name.
    VerifyCa,
    /// TLS with a certificate of a trusted authority for this host.
    VerifyFull,
}

impl Url {
    /// Reads a URL; a relative path in it is taken below `base`.
    ///
    /// # Errors
    /// Says what is wrong, without any text that could hold the password.
    pub fn parse(text: &str, base: &Path) -> Result<Self, String> {
        let parts = Parts::of(text)?;
        let mut given = Given::default();
        let mut passed = Vec::new();
        for parameter in parts.query.split('&').filter(|one| !one.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "pgbouncer" | "pool" | "sslmode" | "sslrootcert" => given.take(name, value)?,
                _ if PASSED.contains(&name) => passed.push(parameter),
                // It may be a piece of the password: it is not repeated.
                _ => return Err(unknown()),
            }
        }
        let bare = format!("postgres://{}?{}", parts.before_query, passed.join("&"));
        let mut config: Config = bare
            .parse()
            .map_err(|_| format!("a part of it can't be read; {EXAMPLE}"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!("it names no host; {EXAMPLE}"));
        }
        if passed.iter().any(|one| is_attrs_of_others(one)) {
            return Err("target_session_attrs is read-write: a standby lags behind the log".into());
        }
        given.settle(&mut config)?;
        set_defaults(&mut config);
        Ok(Self {
            security: given.security,
            root: given.root.map(|path| base.join(path)),
            pgbouncer: given.pgbouncer,
            pool: given.pool.unwrap_or(POOL),
            shown: parts.shown(),
            config,
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&self.shown).finish()
    }
}

/// The text of a URL, apart.
struct Parts<'a> {
    before_query: &'a str,
    credentials: Option<&'a str>,
    /// Hosts and what follows them up to the parameters.
    place: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let rest = ["postgres://", "postgresql://"]
            .into_iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .ok_or_else(|| format!("this is no URL of PostgreSQL; {EXAMPLE}"))?;
        let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, place) = match before_query.split_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, before_query),
        };
        // A reserved character in a password would make its rest a host or a
        // parameter, and those are shown.
        let strays = |part: &str| part.contains(['@', '#']);
        if strays(place) || strays(query) || credentials.is_some_and(|text| text.contains('/')) {
            return Err(format!("it has a stray '@', '/' or '#'; {ENCODE}"));
        }
        Ok(Self {
            before_query,
            credentials,
            place,
            query,
        })
    }

    fn shown(&self) -> String {
        let user = self.credentials.map(|text| match text.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{text}@"),
        });
        let query: Vec<_> = self.query.split('&').map(hidden).collect();
        let query = match self.query {
            "" => String::new(),
            _ => format!("?{}", query.join("&")),
        };
        let user = user.unwrap_or_default();
        format!("postgres://{user}{}{query}", self.place)
    }
}

fn hidden(parameter: &str) -> &str {
    match parameter.starts_with("password=") {
        true => "password=***",
        false => parameter,
    }
}

/// The parameters that are ours.
struct Given {
    security: Security,
    root: Option<PathBuf>,
    pgbouncer: bool,
    pool: Option<usize>,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            security: Security::Prefer,
            root: None,
            pgbouncer: false,
            pool: None,
        }
    }
}

impl Given {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "pgbouncer" => {
                self.pgbouncer = match value {
                    "1" => true,
                    "0" => false,
                    _ => return Err("pgbouncer is 0 or 1".into()),
                }
            }
            "pool" => {
                let pool = value
                    .parse()
                    .ok()
                    .filter(|pool| (1..=MAX_POOL).contains(pool));
                self.pool = Some(pool.ok_or_else(|| format!("pool is 1 to {MAX_POOL}"))?);
            }
            "sslmode" => self.security = security(value)?,
            _ => self.root = Some(path(value)?),
        }
        Ok(())
    }

    fn settle(&self, config: &mut Config) -> Result<(), String> {
        // Whoever may open the socket's file is trusted to be the server.
        let local = |host: &Host| matches!(host, Host::Unix(_));
        let is_local = config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(local);
        config.ssl_mode(match self.security {
            _ if is_local => SslMode::Disable,
            Security::Disable => SslMode::Disable,
            Security::Prefer => SslMode::Prefer,
            Security::Require | Security::VerifyCa | Security::VerifyFull => SslMode::Require,
        });
        if self.root.is_some() && matches!(self.security, Security::Disable | Security::Prefer) {
            return Err("sslrootcert is used only with sslmode=require and above".into());
        }
        Ok(())
    }
}

fn security(value: &str) -> Result<Security, String> {
    Ok(match value {
        "disable" => Security::Disable,
        "prefer" => Security::Prefer,
        "require" => Security::Require,
        "verify-ca" => Security::VerifyCa,
        "verify-full" => Security::VerifyFull,
        _ => return Err("sslmode is disable, prefer, require, verify-ca or verify-full".into()),
    })
}

/// Percent-encoding undone; "system" stands for the system's authorities.
fn path(value: &str) -> Result<PathBuf, String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let decoded = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(decoded.ok_or("sslrootcert has a '%' without two digits")?);
        rest = &rest[2..];
    }
    let text = String::from_utf8(bytes).ok();
    text.filter(|text| !text.is_empty() && !text.contains('\0'))
        .map(PathBuf::from)
        .ok_or_else(|| "sslrootcert is a path".into())
}

/// What bounds a dead peer, where the URL does not say it itself.
fn is_attrs_of_others(parameter: &str) -> bool {
    parameter.starts_with("target_session_attrs=") && !parameter.ends_with("=read-write")
}

fn set_defaults(config: &mut Config) {
    // A standby answers from an older state, which would be served as fresh.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    if config.get_application_name().is_none() {
        config.application_name("sekisho");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    if config.get_keepalives_idle() >= OWN_KEEPALIVES_IDLE {
        config.keepalives_idle(KEEPALIVES_IDLE);
    }
}

fn unknown() -> String {
    format!(
        "it has a parameter that is not known; known are pgbouncer, pool, sslmode, sslrootcert, \
         {}; {ENCODE}",
        PASSED.join(", ")
    )
}

/// Parameters that the client library reads itself.
const PASSED: [&str; 16] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "target_session_attrs",
    "channel_binding",
];
const EXAMPLE: &str = "write \"postgres://USER:PASSWORD@HOST:PORT/DATABASE\"";
const ENCODE: &str = "in a password write %40 for '@', %3A for ':', %2F for '/', %3F for '?', \
                      %23 for '#', %25 for '%'";
/// Enough for some ten thousand loads per second; a hundred servers with it
/// need a pooler before the database.
const POOL: usize = 8;
const MAX_POOL: usize = 100;
/// Per address.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts
/// as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
/// The client library's own default.
const OWN_KEEPALIVES_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Url, String> {
        Url::parse(text, Path::new("/etc/sekisho"))
    }

    #[test]
    fn parameters_are_read() {
        let url = parsed("postgres://u:p%40w@db.example:6432/certs?pgbouncer=1&pool=3").unwrap();
        assert!(url.pgbouncer && url.pool == 3);
        assert_eq!(url.config.get_password(), Some(&b"p@w"[..]));
        assert_eq!(url.config.get_dbname(), Some("certs"));
        assert_eq!(url.config.get_ports(), [6432]);
        let url = parsed("postgresql://h/d?sslmode=verify-full&sslrootcert=db%20ca.pem").unwrap();
        assert_eq!(url.security, Security::VerifyFull);
        assert_eq!(url.root, Some("/etc/sekisho/db ca.pem".into()));
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
        let url = parsed("postgres:///d?host=/run/postgresql&sslmode=require").unwrap();
        assert_eq!(url.config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn the_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://u:hush@h/d", "postgres://u:***@h/d"),
            (
                "postgres://u@h:1/d?password=hush",
                "postgres://u@h:1/d?password=***",
            ),
            (
                "postgresql://u:hush@h,i/d?pool=2&password=hush",
                "postgres://u:***@h,i/d?pool=2&password=***",
            ),
            ("postgres://h/d", "postgres://h/d"),
        ] {
            let url = parsed(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("hush"));
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (text, wanted) in [
            ("postgres://u:hu@sh@h/d", "%40"),
            ("postgres://u:hush/sh@h/d", "%2F"),
            ("postgres://u:p?hush@h/d", "%40"),
            ("postgres://u:p?hush=1", "not known"),
            ("postgres://u:hush@h:port/d", "can't be read"),
            ("postgres:///d", "no host"),
            ("postgres://h/d?pool=0", "1 to 100"),
            ("postgres://h/d?pgbouncer=yes", "0 or 1"),
            ("postgres://h/d?sslmode=allow", "verify-full"),
            ("postgres://h/d?sslrootcert=ca.pem", "sslmode=require"),
            ("postgres://h/d?target_session_attrs=any", "read-write"),
            ("postgres://h/d?sslmode=require&sslrootcert=%2", "digits"),
            ("postgres:u:hush@h", "no URL"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(
                error.contains(wanted) && !error.contains("hush"),
                "{text}: {error}"
            );
        }
    }
}
