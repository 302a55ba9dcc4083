//! Connection that one request at a time uses, while none does.

use super::{Http1, Opened};
use crate::upstream::connections::fastcgi::FastCgi;

/// Unused connection.
#[derive(Debug)]
pub(in crate::upstream) enum Idle {
    Http1(Box<Http1>),
    FastCgi(Box<FastCgi>),
}

impl Idle {
    /// Returns whether another request may use it.
    pub(super) fn is_ready(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.sender.is_ready(),
            Self::FastCgi(connection) => connection.is_ready(),
        }
    }

    pub(super) fn is_closed(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.sender.is_closed(),
            Self::FastCgi(connection) => !connection.is_ready(),
        }
    }

    pub(super) fn use_again(self) -> Opened {
        match self {
            Self::Http1(connection) => Opened::Http1(connection),
            Self::FastCgi(mut connection) => {
                connection.wake();
                Opened::FastCgi(connection)
            }
        }
    }
}
