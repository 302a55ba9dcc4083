//! HTTP/1.1 connection, with the timer of its requests.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep};

use crate::upstream::connections::informational::Informational;
use crate::upstream::connections::wakes::Wakes;
use crate::upstream::request::upload::Upload;

/// HTTP/1.1 connection, which serves one request at a time.
#[derive(Debug)]
pub(in crate::upstream) struct Http1 {
    pub(in crate::upstream) sender: http1::SendRequest<Upload>,
    pub(in crate::upstream) informational: Arc<Informational>,
    pub(in crate::upstream) wakes: Arc<Wakes>,
    /// Ends the connection's task.
    pub(in crate::upstream) task: AbortHandle,
    /// Bounds the wait for an answer. All requests have one timer in turn: moved to
    /// later, it takes no lock.
    timer: Pin<Box<Sleep>>,
    /// Served a request before.
    pub(in crate::upstream) reused: bool,
}

impl Http1 {
    pub(in crate::upstream) fn new(
        sender: http1::SendRequest<Upload>,
        informational: Arc<Informational>,
        wakes: Arc<Wakes>,
        task: AbortHandle,
    ) -> Self {
        Self {
            sender,
            informational,
            wakes,
            task,
            timer: Box::pin(sleep(Duration::ZERO)),
            reused: false,
        }
    }

    /// Sends a request without a body, and awaits the head of its answer until
    /// `until`. Returns none if the head is late.
    pub(in crate::upstream) async fn ask(
        &mut self,
        request: Request<Upload>,
        until: Instant,
    ) -> Option<Result<Response<Incoming>, TrySendError<Request<Upload>>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        let timer = &mut self.timer;
        timer.as_mut().reset(until);
        poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Ends a request. The timer may go on, but knows its task no longer.
    pub(in crate::upstream) fn rest(&mut self) {
        self.reused = true;
        let _ = self
            .timer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
}
