//! Reasons why a request could not be passed on, or got no answer.

use std::fmt;
use std::io;

use http::StatusCode;

/// Failure of a request to an upstream.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request can't be passed on.
    Refused(StatusCode),
    /// The site's settings can't be used.
    Settings(String),
    /// No server may or can take the request.
    NoServer(&'static str),
    /// No connection.
    Connect(io::Error),
    /// No connection in time.
    ConnectLate,
    /// The connection ended, or what came is no answer.
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// No answer in time.
    Late,
    /// The request's body failed on the client's side.
    Client,
    /// The request's body is longer than the site allows.
    TooLarge,
}

impl Failure {
    /// Returns the status that the client gets.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Refused(status) => *status,
            Self::Settings(_) | Self::Connect(_) | Self::Answer(_) => StatusCode::BAD_GATEWAY,
            Self::NoServer(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectLate | Self::Late => StatusCode::GATEWAY_TIMEOUT,
            Self::Client => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// Makes a failure of what the upstream sent.
    pub(super) fn answer(what: &'static str) -> Self {
        Self::Answer(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "refused with {status}"),
            Self::Settings(problem) => f.write_str(problem),
            Self::NoServer(why) => f.write_str(why),
            Self::Connect(error) => write!(f, "no connection: {error}"),
            Self::ConnectLate => f.write_str("no connection in time"),
            Self::Answer(error) => write!(f, "no valid answer: {error}"),
            Self::Late => f.write_str("no answer in time"),
            Self::Client => f.write_str("the client's body failed"),
            Self::TooLarge => f.write_str("the client's body is too large"),
        }
    }
}
