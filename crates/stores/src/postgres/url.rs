//! Where the database is, as the configuration says it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::place::{StoreServer, path_below};
use crate::url_parts::{Parameters, Parts};

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
        let parts = Parts::split(text, &["postgres", "postgresql"])?;
        let known = format!("pgbouncer, pool, sslmode, sslrootcert, {PASSED}");
        let mut query = Parameters::parse(parts.query, &known)?;
        let pgbouncer = query.flag("pgbouncer")?.unwrap_or(false);
        let pool = query.take("pool")?.as_deref().map_or(Ok(POOL), pool_size)?;
        let security = query.take("sslmode")?;
        let security = security.as_deref().map_or(Ok(Security::Prefer), sslmode)?;
        let root = query.take("sslrootcert")?;
        let root = root.map(|path| path_below(base, &path)).transpose()?;
        let attrs = query.take("target_session_attrs")?;
        if attrs.is_some_and(|attrs| attrs != "read-write") {
            return Err(ATTRS.into());
        }
        if root.is_some() && matches!(security, Security::Disable | Security::Prefer) {
            return Err("sslrootcert is used only with sslmode=require and above".into());
        }
        let before_query = text.split_once('?').map_or(text, |(before, _)| before);
        let bare = format!("{before_query}?{}", query.rest());
        let config: Result<Config, _> = bare.parse();
        let mut config = config.map_err(|_| format!("a part of it can't be read; {EXAMPLE}"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!("it names no host; {EXAMPLE}"));
        }
        settle(&mut config, security);
        Ok(Self {
            security,
            root,
            pgbouncer,
            pool,
            shown: shown(&parts),
            config,
        })
    }

    /// Returns the servers that the URL names.
    #[must_use]
    pub fn servers(&self) -> Vec<StoreServer> {
        let ports = self.config.get_ports();
        // libpq's rule: one port for all, or one for each.
        let port = |index: usize| *ports.get(index).or(ports.first()).unwrap_or(&DEFAULT_PORT);
        let hosts = self.config.get_hosts().iter().enumerate();
        let hosts = hosts.map(|(index, host)| match host {
            Host::Tcp(_) => StoreServer::Port(port(index)),
            Host::Unix(folder) => {
                StoreServer::Unix(folder.join(format!(".s.PGSQL.{}", port(index))))
            }
        });
        let addresses = 0..self.config.get_hostaddrs().len();
        let addresses = addresses.map(|index| StoreServer::Port(port(index)));
        hosts.chain(addresses).collect()
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

/// PostgreSQL's port.
pub(super) const DEFAULT_PORT: u16 = 5432;

fn shown(parts: &Parts<'_>) -> String {
    let query = parts.query.split('&').map(|one| match one {
        one if one.starts_with("password=") => "password=***",
        one => one,
    });
    let query = query.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    format!("postgres://{}{}{mark}{query}", parts.user(), parts.place)
}

fn pool_size(value: &str) -> Result<usize, String> {
    let size = value.parse().ok();
    size.filter(|size| (1..=MAX_POOL).contains(size))
        .ok_or_else(|| format!("pool is 1 to {MAX_POOL}"))
}

fn sslmode(value: &str) -> Result<Security, String> {
    match value {
        "disable" => Ok(Security::Disable),
        "prefer" => Ok(Security::Prefer),
        "require" => Ok(Security::Require),
        "verify-ca" => Ok(Security::VerifyCa),
        "verify-full" => Ok(Security::VerifyFull),
        _ => Err("sslmode is disable, prefer, require, verify-ca or verify-full".into()),
    }
}

/// Sets what the URL does not say itself.
fn settle(config: &mut Config, security: Security) {
    // A process that may open the socket's file is trusted to be the server.
    let local = |host: &Host| matches!(host, Host::Unix(_));
    let is_local = config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(local);
    config.ssl_mode(match security {
        _ if is_local => SslMode::Disable,
        Security::Disable => SslMode::Disable,
        Security::Prefer => SslMode::Prefer,
        Security::Require | Security::VerifyCa | Security::VerifyFull => SslMode::Require,
    });
    // A standby answers from an older state, which would be served as fresh.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    if config.get_application_name().is_none() {
        config.application_name("sekisho");
    }
    // Bounds on a dead peer.
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    }
    if config.get_keepalives_idle() >= LIBRARY_KEEPALIVES_IDLE {
        config.keepalives_idle(KEEPALIVES_IDLE);
    }
}

/// Parameters that the client library reads itself.
const PASSED: &str = "user, password, dbname, options, application_name, sslnegotiation, host, \
                      hostaddr, port, connect_timeout, tcp_user_timeout, keepalives, \
                      keepalives_idle, keepalives_interval, target_session_attrs, channel_binding";
const ATTRS: &str = "target_session_attrs is read-write: a standby lags behind the log";
const EXAMPLE: &str = "write \"postgres://USER:PASSWORD@HOST:PORT/DATABASE\"";
/// Enough for some ten thousand loads per second; a hundred servers with it
/// need a pooler before the database.
const POOL: usize = 8;
const MAX_POOL: usize = 100;
/// Per address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts
/// as dead.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
/// The client library's own default.
const LIBRARY_KEEPALIVES_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

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
            ("postgres://h/d?pgbouncer=yes", "1 or 0"),
            ("postgres://h/d?sslmode=allow", "verify-full"),
            ("postgres://h/d?sslrootcert=ca.pem", "sslmode=require"),
            ("postgres://h/d?target_session_attrs=any", "read-write"),
            ("postgres://h/d?sslmode=require&sslrootcert=%2", "digits"),
            ("postgres:u:hush@h", "begins with postgres://"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(
                error.contains(wanted) && !error.contains("hush"),
                "{text}: {error}"
            );
        }
    }
}
