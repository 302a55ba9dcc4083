//! Reasons why a request could not be passed on, or got no answer.

use std::fmt;
use std::io;

use http::StatusCode;
use rustix::io::Errno;

use super::servers::resolve::Unresolved;

/// Failure of a request to an upstream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request can't be passed on.
    #[error("refused with {0}")]
    Refused(StatusCode),
    /// The site's settings can't be used.
    #[error("{0}")]
    Settings(String),
    /// The host of the client certificate could not be looked up.
    #[error("{0}")]
    Lookup(String),
    /// No server may or can take the request.
    #[error("{0}")]
    NoServer(&'static str),
    /// All servers were tried.
    #[error("all servers of the upstream were tried")]
    Tried,
    /// Too many requests wait for a connection to the server.
    #[error("too many requests wait for a connection to the server")]
    TooManyWait,
    /// No connection to the server came free in time.
    #[error("all connections to the server were in use for too long")]
    NoneFree,
    /// No program can be started for now.
    #[error("{0}")]
    NoRoom(String),
    /// No connection.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// No connection in time.
    #[error("no connection in time")]
    ConnectLate,
    /// The Unix socket could not be opened in time.
    #[error("the Unix socket was not opened in time")]
    SocketLate,
    /// No connection, for a reason that says nothing of the server.
    #[error(transparent)]
    Own(#[from] Own),
    /// A connection that TLS or HTTP/2 could not begin on.
    #[error("connection of no use: {0}")]
    Begin(io::Error),
    /// A connection that TLS or HTTP/2 did not begin on in time.
    #[error("TLS or HTTP/2 did not begin in time")]
    BeginLate,
    /// The server took the connection, but no request.
    #[error("the server is overloaded, and did not take the request")]
    Overloaded,
    /// The connection ended, or what came is no answer.
    #[error("no valid answer: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// No answer in time.
    #[error("no answer in time")]
    Late,
    /// The request's body failed on the client's side.
    #[error("the client's body failed")]
    Client,
    /// The request's body is longer than the site allows.
    #[error("the client's body is too large")]
    TooLarge,
    /// The body waited for its client while another client network needed its connection.
    #[error("the client's body waited while another network needed its connection")]
    GaveWay,
}

/// Reason on this side why there is no connection to a server. Failures of this kind
/// eject none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Own {
    /// The name servers did not say where the server is.
    #[error("its name could not be resolved: {0}")]
    Unresolved(String),
    /// Too many connections wait to be opened.
    #[error("too many requests wait to open a connection")]
    Full,
    /// The process has as many connections to upstreams as it may, and requests wait.
    #[error("all connections to upstreams that this process may open are in use")]
    Descriptors,
    /// The machine lacks what a connection needs.
    #[error("no connection: {0}")]
    Lacking(String),
    /// `timeouts.connect` ended in this wait.
    #[error("`timeouts.connect` ended while waiting for {0}")]
    Late(Waited),
}

/// Wait of a request before it connects to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Name,
    Identity,
    Opening,
    Socket,
    Descriptor,
    Begin,
    /// Several of them: the server had less than half of the time.
    Several,
}

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "the address of the server's name",
            Self::Identity => "the host of `certificate_of` or the CAs of `tls`",
            Self::Opening => "another request to open a connection of HTTP/2",
            Self::Socket => "a thread to open the Unix socket",
            Self::Descriptor => "one of the connections to upstreams that this process may open",
            Self::Begin => "a permit to open a connection",
            Self::Several => "this server itself, not for the upstream",
        })
    }
}

impl Own {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unresolved(_) => StatusCode::BAD_GATEWAY,
            Self::Full | Self::Descriptors | Self::Lacking(_) | Self::Late(Waited::Descriptor) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Late(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Unresolved(_) | Self::Late(Waited::Name) => {
                "see whether the name servers answer: `[sites] resolvers`, or those of \
                 /etc/resolv.conf"
            }
            Self::Late(Waited::Identity) => {
                "see whether the store answers for the host of `certificate_of`"
            }
            Self::Late(Waited::Opening) => {
                "the server accepts new connections slowly; requests wait for one to be opened"
            }
            Self::Late(Waited::Socket) => {
                "see whether the file systems of the Unix sockets of all sites answer"
            }
            Self::Descriptors | Self::Late(Waited::Descriptor) => {
                "raise the hard limit of open files (LimitNOFILE= in a systemd unit), or see \
                 which tenant's upstreams answer slowly"
            }
            Self::Lacking(_) => {
                "this machine has no descriptor, memory or local port left: see its limits"
            }
            Self::Full | Self::Late(Waited::Begin | Waited::Several) => {
                "this machine is overloaded: see its CPU, and which clients send most requests"
            }
        }
    }
}

impl Failure {
    /// Returns the status that the client gets.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Refused(status) => *status,
            Self::Settings(_) | Self::Connect(_) | Self::Begin(_) | Self::Answer(_) => {
                StatusCode::BAD_GATEWAY
            }
            Self::Lookup(_)
            | Self::NoServer(_)
            | Self::Tried
            | Self::TooManyWait
            | Self::NoRoom(_)
            | Self::Overloaded
            | Self::NoneFree => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectLate | Self::SocketLate | Self::BeginLate | Self::Late => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::Own(own) => own.status(),
            Self::Client => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::GaveWay => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// Returns what an operator may do about it. None for failures of the client's
    /// side, and for those that `[sites] allow` has logged already.
    pub(super) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused(_) | Self::Client | Self::TooLarge | Self::NoServer(_) => return None,
            Self::Lookup(_) => "the store did not answer for the host of `certificate_of`",
            Self::Settings(_) => "correct `tls` of the site's upstream",
            Self::Connect(_) => "see whether the server runs and listens there",
            Self::Begin(_) => {
                "`tls`, `protocol` or `proxy_protocol` of the site does not fit the server"
            }
            Self::BeginLate => {
                "the server accepted the connection, but did not begin TLS or HTTP/2 within \
                 `timeouts.connect`: `tls`, `protocol` or `proxy_protocol` may not fit it"
            }
            Self::SocketLate => "see whether the file system of the Unix socket answers",
            Self::Own(own) => own.hint(),
            Self::ConnectLate => {
                "the server, or a firewall before it, did not answer within `timeouts.connect`"
            }
            Self::Answer(_) => "the server's own log may say why; it must speak `protocol`",
            Self::Late => "the server took longer than `timeouts.first_byte`",
            Self::GaveWay => {
                "the client's network holds most of the tenant's `connections` to the server, and \
                 the body waited longest: slow uploads may be an attack, else raise `connections`"
            }
            Self::Tried => "no server of the site is left",
            Self::Overloaded => {
                "the FastCGI server has fewer children than requests come: see its own limits, and \
                 `connections` of the site"
            }
            Self::NoRoom(_) => "programs run too long for their requests: see which tenant's",
            Self::TooManyWait | Self::NoneFree => {
                "the server is too slow for its requests, or `connections` and `waiting` of the \
                 site are too low"
            }
        })
    }

    /// Returns whether no connection of use came about, which speaks against the server.
    pub(super) fn is_of_connecting(&self) -> bool {
        matches!(
            self,
            Self::Connect(_)
                | Self::ConnectLate
                | Self::SocketLate
                | Self::Begin(_)
                | Self::BeginLate
                | Self::Overloaded
        )
    }

    /// Returns whether the server answered wrongly, or not at all.
    pub(super) fn is_of_server(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Late | Self::Overloaded)
    }

    /// Returns whether there is no connection for a reason that says nothing of the server.
    pub(super) fn is_on_our_side(&self) -> bool {
        matches!(self, Self::TooManyWait | Self::NoneFree | Self::Own(_))
    }

    /// Returns whether the queue for a connection was full, or too slow. No other server is
    /// tried then.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::TooManyWait
                | Self::NoneFree
                | Self::Own(Own::Full | Own::Descriptors | Own::Late(Waited::Descriptor))
        )
    }

    /// Returns whether the time to connect ended before the server was reached.
    pub(super) fn is_late(&self) -> bool {
        matches!(self, Self::ConnectLate | Self::BeginLate)
    }

    /// Tells what the machine lacks apart from what the server refuses.
    pub(super) fn sorted(self) -> Self {
        match self {
            Self::Connect(error) if is_own(&error) => Own::Lacking(error.to_string()).into(),
            other => other,
        }
    }

    /// Returns whether no descriptor was left.
    pub(super) fn lacks_descriptor(&self) -> bool {
        let Self::Connect(error) = self else {
            return false;
        };
        let errno = Errno::from_io_error(error);
        errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno))
    }

    /// Makes a failure of what the upstream sent.
    pub(super) fn answer(what: &'static str) -> Self {
        Self::Answer(what.into())
    }
}

/// Tells whether this machine lacks what a connection needs: descriptors, memory or
/// local ports. Such an error says nothing of the server.
fn is_own(error: &io::Error) -> bool {
    let own = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
    ];
    Errno::from_io_error(error).is_some_and(|errno| own.contains(&errno))
}

impl From<Unresolved> for Failure {
    fn from(unresolved: Unresolved) -> Self {
        match unresolved {
            Unresolved::Absent => Self::Connect(io::Error::other(unresolved)),
            Unresolved::Failed(why) => Own::Unresolved(why.to_string()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_says_nothing_of_the_server() {
        let speaks_against = |errno: Errno| {
            let failure = Failure::Connect(errno.into()).sorted();
            failure.is_of_connecting()
        };
        assert!(speaks_against(Errno::CONNREFUSED));
        for errno in [Errno::MFILE, Errno::ADDRNOTAVAIL] {
            assert!(!speaks_against(errno), "{errno}");
        }
        for own in [
            Failure::Settings("no CA".into()),
            Failure::Lookup("the store is down".into()),
            Failure::NoServer("not allowed"),
            Own::Unresolved("no answer".into()).into(),
        ] {
            assert!(!own.is_of_connecting(), "{own}");
            assert!(!own.is_of_server(), "{own}");
        }
    }
}
