//! Functions by which a script reaches stores and the server.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sekisho_certs::hook::Charge;
pub use sekisho_certs::hook::{SqlRow, SqlValue};
use sekisho_certs::{HostName, Secret, Tenant, printable};
use tokio::time::Instant;

/// Functions that the embedder gives to scripts (*imports* of an embedded
/// language).
///
/// All errors have texts for the log: they say which part failed, and hold no
/// secret. An implementation bounds its replies and waits; the caller drops a
/// future whose deadline passed. Dropping a future must be safe at any point.
pub trait Imports: Send + Sync + 'static {
    /// Certificate that is ready to be served, with all that a connection needs
    /// of it. Clones share it.
    type Made: Clone + Send + Sync + 'static;

    /// Looks up `name` for `client` as an ordinary handshake does: through the
    /// shared cache, charged to the client's prefix.
    fn lookup<'a>(&'a self, name: &'a HostName, client: IpAddr) -> BoxFuture<'a, Found>;

    /// Tells whether `name` has a certificate, if the shared cache knows it. Costs nothing.
    fn cached(&self, name: &HostName) -> Option<bool>;

    /// Asks the client's prefix for a token before the first store call of a run,
    /// waiting until `deadline` at most. The answer is kept until the run ends: it spends
    /// the token, or gives it back when it is dropped.
    fn admit(&self, client: IpAddr, deadline: Instant) -> BoxFuture<'_, Result<Charge, String>>;

    /// Takes a token of the client's prefix without a wait; none if there is none now.
    fn try_admit(&self, client: IpAddr) -> Option<Charge>;

    /// Sends a command to the Redis server at `url`.
    fn redis<'a>(
        &'a self,
        url: &'a str,
        command: RedisCommand,
    ) -> BoxFuture<'a, Result<RedisReply, CallError>>;

    /// Sends a GET request. Every status is an answer; an error says that there
    /// was none. Redirects are not followed.
    fn http_get(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, CallError>>;

    /// Runs a query on the database that the configuration names `database`.
    fn sql<'a>(
        &'a self,
        database: &'a str,
        query: String,
        parameters: Vec<SqlValue>,
    ) -> BoxFuture<'a, Result<Vec<SqlRow>, CallError>>;

    /// Makes what is served from PEM texts, one pair per key type. Keys, sizes and names of
    /// each pair are checked. Signatures of its chain must be verified only if `owner` has a
    /// key: what is kept under that key is served for long.
    ///
    /// # Errors
    /// Says which pair is wrong, and how.
    fn make(&self, pairs: &[Pair], owner: &Owner) -> Result<Self::Made, String>;

    /// Returns the bytes of memory that `made` takes.
    fn weight(&self, made: &Self::Made) -> u64;
}

/// Failure of a call of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There was no answer, or none that ends. An outage charges nobody.
    #[error("{0}")]
    Outage(String),
    /// The call can't be sent, its server refuses it, as for a value that it can't read, or
    /// the answer is too large. All are failures of the script.
    #[error("{0}")]
    Refused(String),
}

/// Answer of an ordinary lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The name has a certificate.
    Found,
    /// There is no such host, or it has no certificate.
    Absent,
    /// There was no answer, for this reason.
    Failed(String),
}

impl Found {
    /// Returns the word that scripts get.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Failed(_) => "failed",
        }
    }
}

/// Command for Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisCommand {
    /// `GET key`.
    Get(Vec<u8>),
    /// `MGET key…`.
    Mget(Vec<Vec<u8>>),
    /// `HGETALL key`.
    Hgetall(Vec<u8>),
}

/// Reply of Redis, of the kind that the command asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// Value of one key; none if there is no such key.
    Value(Option<Vec<u8>>),
    /// Values in the order of the keys.
    Values(Vec<Option<Vec<u8>>>),
    /// Fields of a hash; empty if there is no such key.
    Fields(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Request of `http.get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// URL as the script wrote it.
    pub url: String,
    /// Header fields to send.
    pub headers: Vec<(String, String)>,
    /// Limit of the whole exchange; never longer than what is left of the run.
    pub timeout: Duration,
    /// The client that the request is for; none for `test()`.
    pub client: Option<IpAddr>,
}

impl HttpRequest {
    /// Returns scheme, host and path, safe to print. User, password and query may be
    /// secrets.
    #[must_use]
    pub fn shown(&self) -> String {
        let end = self.url.find(['?', '#']).unwrap_or(self.url.len());
        let (scheme, rest) = match self.url[..end].split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), &self.url[..end]),
        };
        let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = place.rsplit('@').next().unwrap_or_default();
        let shown = format!("{scheme}{host}{path}");
        printable(&shown[..shown.floor_char_boundary(MAX_SHOWN)])
    }
}

/// Bytes of a URL in reports and errors.
const MAX_SHOWN: usize = 256;

/// Answer to [`HttpRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Header fields by lower-case name; those of one name are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// Content.
    pub body: Vec<u8>,
}

/// Certificate chain and private key, both PEM.
#[derive(Debug)]
pub struct Pair {
    /// Chain, the host's certificate first.
    pub certificate: Vec<u8>,
    /// Private key.
    pub key: Secret,
}

/// Owner of a certificate that a script gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Tenant; the operator unless `tls:tenant` named another.
    pub tenant: Tenant,
    /// JSON of the site; `[site]` if none.
    pub site: Option<Arc<str>>,
    /// Key of `tls:cached`; none if the certificate was given outside of it. No other
    /// certificate has the key in the region at the same time, and a key is never a
    /// host's name: tickets are bound to it, and to tenant and TLS policy.
    pub key: Option<Arc<str>>,
}

/// Writes the command with its keys, for reports.
impl fmt::Display for RedisCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, keys) = match self {
            Self::Get(key) => ("GET", std::slice::from_ref(key)),
            Self::Mget(keys) => ("MGET", &keys[..]),
            Self::Hgetall(key) => ("HGETALL", std::slice::from_ref(key)),
        };
        f.write_str(word)?;
        for key in keys {
            write!(f, " {}", String::from_utf8_lossy(key))?;
        }
        Ok(())
    }
}

impl RedisReply {
    /// Returns the bytes of all values.
    pub(crate) fn size(&self) -> usize {
        let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        match self {
            Self::Value(value) => size(value),
            Self::Values(values) => values.iter().map(size).sum(),
            Self::Fields(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum(),
        }
    }
}

/// Writes how much there was, for reports: a value may be a key.
impl fmt::Display for RedisReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(None) => f.write_str("absent"),
            Self::Values(values) if values.iter().all(Option::is_none) => f.write_str("absent"),
            Self::Fields(fields) if fields.is_empty() => f.write_str("absent"),
            _ => write!(f, "{} bytes", self.size()),
        }
    }
}
