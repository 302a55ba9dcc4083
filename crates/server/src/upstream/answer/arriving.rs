//! Body of an answer as it arrives: of HTTP, or of a script.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::cgi::Running;
use crate::upstream::connections::lease::Lease;
use crate::upstream::connections::pool::Opened;
use crate::upstream::conversation::Conversation;

/// Body of an answer.
pub(in crate::upstream) enum Arriving {
    Http(Incoming),
    /// Output of a program, or of a script that the server of the connection runs.
    Script(Box<Conversation>, Option<Box<Running>>),
    /// The body was taken away.
    Nothing,
}

impl Arriving {
    /// Takes the next frame; `lease` has the connection that the answer comes from.
    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        lease: Option<&mut Lease>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self {
            Self::Http(body) => {
                let mut poll = || (Pin::new(&mut *body).poll_frame(cx), body.is_end_stream());
                let frame = match lease.as_ref().and_then(|lease| lease.wakes()) {
                    Some(wakes) => wakes.while_taking(poll),
                    None => poll().0,
                };
                frame.map_err(io::Error::other)
            }
            Self::Script(conversation, Some(program)) => {
                conversation.poll_frame(cx, &mut **program)
            }
            Self::Script(conversation, None) => {
                match lease.and_then(|lease| lease.connection.as_mut()) {
                    Some(Opened::FastCgi(connection)) => {
                        conversation.poll_frame(cx, &mut **connection)
                    }
                    _ => Poll::Ready(None),
                }
            }
            Self::Nothing => Poll::Ready(None),
        }
    }

    pub(in crate::upstream) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http(body) => body.is_end_stream(),
            Self::Script(conversation, _) => conversation.has_ended,
            Self::Nothing => true,
        }
    }

    /// Returns whether a script goes on, though its answer needs no more of its output.
    pub(super) fn is_delivered(&self) -> bool {
        matches!(self, Self::Script(conversation, _) if conversation.is_delivered())
    }

    /// Returns whether a script's server has not taken the whole request.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self, Self::Script(conversation, _) if !conversation.is_sent())
    }

    pub(in crate::upstream) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http(body) => body.size_hint(),
            Self::Script(conversation, _) => conversation
                .left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Self::Nothing => SizeHint::with_exact(0),
        }
    }
}
