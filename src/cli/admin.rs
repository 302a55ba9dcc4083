//! Client of a server's admin listener, for commands that ask a running server.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sekisho_server::admin::Address;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::config::Config;
use crate::terminal::failure::Result;

/// Admin listener of the server that runs with a configuration.
pub(super) struct Admin<'a> {
    address: &'a Address,
    /// Content of the `Authorization` field.
    bearer: Option<String>,
}

/// Answer of the server.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl<'a> Admin<'a> {
    /// Finds the listener of a configuration, for a command that needs any.
    ///
    /// # Errors
    /// Names the key that is missing.
    pub(super) fn of(config: &'a Config) -> Result<Self> {
        let file = config.file.display();
        let address = config.listen.admin.as_ref().with_context(|| {
            format!("{file}: [listen] admin is missing; write admin = {EXAMPLE}")
        })?;
        let token = config.listen.admin_token.as_ref();
        let token = token.map(|token| token.read(MAX_TOKEN)).transpose();
        let token = token.context("[listen] admin_token")?;
        let bearer = token.map(|token| format!("Bearer {}", token.trim()));
        Ok(Self { address, bearer })
    }

    /// Finds the Unix socket of a configuration, for a command that changes the server.
    /// `signal` does the same without one.
    ///
    /// # Errors
    /// Names the key, and the signal.
    pub(super) fn over_unix(config: &'a Config, signal: &str) -> Result<Self> {
        match &config.listen.admin {
            Some(Address::Unix(_)) => Self::of(config),
            Some(Address::Tcp(_)) | None => bail!(
                "{}: [listen] admin is no Unix socket, which only the server's user can open; \
                 write admin = {EXAMPLE}, or send {signal} to the server",
                config.file.display()
            ),
        }
    }

    /// Sends a request, and waits at most `limit` for its answer.
    pub(super) async fn ask(&self, method: Method, path: &str, limit: Duration) -> Result<Answer> {
        let address = self.address;
        let answer = timeout(limit, async {
            match address {
                Address::Unix(path_of) => {
                    let stream = UnixStream::connect(path_of).await;
                    let stream = stream.map_err(|error| unreachable(address, &error))?;
                    self.exchange(stream, method, path).await
                }
                Address::Tcp(socket) => {
                    let stream = TcpStream::connect(socket).await;
                    let stream = stream.map_err(|error| unreachable(address, &error))?;
                    self.exchange(stream, method, path).await
                }
            }
        });
        let late = || anyhow!("{address}: no answer within {limit:?}");
        answer.await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        method: Method,
        path: &str,
    ) -> Result<Answer> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost");
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        let response = sender
            .send_request(request.body(Empty::<Bytes>::new())?)
            .await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect();
        let body = body.await.map_err(|error| anyhow!(error))?.to_bytes();
        let text = String::from_utf8_lossy(&body).trim_end().to_owned();
        Ok(Answer { status, text })
    }
}

fn unreachable(address: &Address, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "run this as the server's user, or as root",
        _ => "does the server run, with this configuration?",
    };
    anyhow!("can't connect to {address}: {error}; {hint}")
}

/// Address that packages use.
const EXAMPLE: &str = "\"unix:/run/sekisho/admin.sock\"";
/// Bytes of a token.
const MAX_TOKEN: usize = 8192;
/// Bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
