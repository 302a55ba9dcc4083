//! Failures of one connection, in few words: the tally groups by them.

use std::io;

#[derive(Debug)]
pub enum Failure {
    Connect(io::Error),
    Handshake(io::Error),
    Exchange(io::Error),
    /// The handshake used another key exchange group than the one to measure.
    Group,
    Status(u16),
    Response(&'static str),
    Deadline,
    /// As many connections as may be open were, for longer than the deadline.
    NotBegun,
    /// The host name is invalid in TLS.
    Name,
}

impl Failure {
    pub fn kind(&self) -> String {
        match self {
            Self::Connect(error) => format!("connect: {error}"),
            Self::Handshake(error) => format!("handshake: {error}"),
            Self::Exchange(error) => format!("exchange: {error}"),
            Self::Group => "handshake: another key exchange group".to_owned(),
            Self::Status(status) => format!("status {status}"),
            Self::Response(what) => format!("response: {what}"),
            Self::Deadline => "deadline".to_owned(),
            Self::NotBegun => "not begun: all connections are in use".to_owned(),
            Self::Name => "bad host name".to_owned(),
        }
    }
}
