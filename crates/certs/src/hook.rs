//! Words of a hook, of the server that asks it and of the databases that its script asks,
//! which know nothing of each other.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::host::HostName;

/// Facts of a connection's ClientHello without its server name. A connection keeps
/// them: each list has at most 64 entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFacts {
    /// Address of the client; from the PROXY protocol's header if there is one.
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
    /// Protocols that the client offers (RFC 7301); at most 255 bytes in all.
    pub alpn: Box<[Box<[u8]>]>,
    /// Signature schemes that the client offers, as IANA numbers.
    pub signature_schemes: Box<[u16]>,
    /// Cipher suites that the client offers, as IANA numbers.
    pub cipher_suites: Box<[u16]>,
    /// Groups that the client offers for its key exchange, as IANA numbers.
    pub named_groups: Box<[u16]>,
}

/// Choice of a hook, which a handshake gets. `M` is a certificate that the server made for
/// the hook.
#[derive(Clone, Debug)]
pub enum Choice<M> {
    /// Nothing was chosen: the name is looked up as without a hook.
    Lookup,
    /// The client gets what it would get if it had asked for this host.
    Use(HostName),
    /// The client gets the default of the listening address.
    Default,
    /// The handshake ends with the alert of this code (RFC 8446, section 6). A request
    /// gets 421.
    Refuse(u8),
    /// The client gets a certificate that the hook gave.
    Made(M),
}

impl<M> Choice<M> {
    /// Returns the word for logs.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Use(_) => "use",
            Self::Default => "default",
            Self::Refuse(_) => "refuse",
            Self::Made(_) => "made",
        }
    }
}

/// Charges a client's prefix for calls that led to nothing, as a lookup of an absent name.
/// Dropped uncalled, it charges nothing.
pub type Charge = Box<dyn FnOnce() + Send + Sync>;

/// Value of a parameter or a column of a script's query.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// NULL, Luau's nil.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `bigint`; of a column also the smaller types and `oid`.
    Integer(i64),
    /// `double precision`; of a column also `real`.
    Float(f64),
    /// `text`; of a column also `varchar`, `char`, `name`, `json`, `jsonb` and `xml`.
    Text(String),
    /// `bytea`.
    Bytes(Vec<u8>),
}

/// Row of an answer: its columns in order, by name.
pub type SqlRow = Vec<(Arc<str>, SqlValue)>;
