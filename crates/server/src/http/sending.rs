//! Connection of HTTP/2 that sends once after each poll.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::tls::Corked;

/// Connection of HTTP/2, and its stream, which holds what a poll writes.
pub(super) struct Sending<C> {
    connection: C,
    stream: Corked,
}

impl<C: Unpin> Sending<C> {
    pub(super) fn new(connection: C, stream: Corked) -> Self {
        Self { connection, stream }
    }

    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        Pin::new(&mut self.connection)
    }

    /// Gives the memory of rustls's read buffer back.
    pub(super) fn release_buffer(&self) {
        self.stream.release_buffer();
    }
}

impl<C: Future + Unpin> Future for Sending<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        self.stream.begin_turn();
        let polled = self.connection().poll(cx);
        match self.stream.send(cx) || polled.is_ready() {
            true => polled,
            false => self.connection().poll(cx),
        }
    }
}
