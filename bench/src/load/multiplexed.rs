//! HTTP/2 client: many requests at a time on one connection.

use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;

/// HTTP/2 connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Multiplexed {
    sender: http2::SendRequest<Empty<Bytes>>,
    uri: Uri,
}

impl Multiplexed {
    /// Begins HTTP/2. The connection runs on a task of its own, until all clones
    /// are dropped.
    pub(crate) async fn open(
        stream: TlsStream<TcpStream>,
        path: &str,
        host: &str,
    ) -> Result<Self, Failure> {
        let uri = format!("https://{host}{path}");
        let uri = uri.parse().map_err(|_| Failure::Name)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::Response("no HTTP/2"))?;
        tokio::spawn(connection);
        Ok(Self { sender, uri })
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends one request and reads its answer to the end.
    pub(crate) async fn request(&self) -> Result<(), Failure> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.uri.clone();
        let mut sender = self.sender.clone();
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|_| Failure::Response("the stream failed"))?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Status(answer.status().as_u16()));
        }
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|_| Failure::Response("the body failed"))?;
        }
        Ok(())
    }
}

/// Bytes that a server may send unread: no window slows it down.
const WINDOW: u32 = 16 << 20;
