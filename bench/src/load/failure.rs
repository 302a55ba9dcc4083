//! What can go wrong with one connection, in few words, since the words are counted.

use std::io;

#[derive(Debug)]
pub(crate) enum Failure {
    Connect(io::Error),
    Handshake(io::Error),
    Exchange(io::Error),
    /// Another key exchange than the one that is to be measured.
    Group,
    Status(u16),
    Response(&'static str),
    Deadline,
    /// A name that TLS cannot carry.
    Name,
}

impl Failure {
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Connect(error) => format!("connect: {error}"),
            Self::Handshake(error) => format!("handshake: {error}"),
            Self::Exchange(error) => format!("exchange: {error}"),
            Self::Group => "handshake: another key exchange group".to_owned(),
            Self::Status(status) => format!("status {status}"),
            Self::Response(what) => format!("response: {what}"),
            Self::Deadline => "deadline".to_owned(),
            Self::Name => "bad host name".to_owned(),
        }
    }
}
