//! Makes a connection that answers from an address.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, ServerError, Value};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, join, split};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::connection::{Dialled, Link};
use super::reply_limit::ReplyLimit;
use super::url::Node;
use crate::pem_pair::MAX_HALF;

/// Login, database and TLS of all connections to one kind of server.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) login: RedisConnectionInfo,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Dialer {
    /// Connects, logs in and gets a first reply. The caller bounds the time.
    pub(super) async fn dial(&self, node: &Node) -> Result<Dialled, String> {
        let at = |what: &dyn Display| format!("{node}: {what}");
        let socket = TcpStream::connect((node.host.as_str(), node.port)).await;
        let socket = socket.map_err(|error| at(&error))?;
        socket.set_nodelay(true).map_err(|error| at(&error))?;
        let dialled = match &self.tls {
            None => self.log_in(socket).await,
            Some(tls) => {
                let name = ServerName::try_from(node.host.clone());
                let name = name.map_err(|error| at(&error))?;
                let tls = TlsConnector::from(Arc::clone(tls)).connect(name, socket);
                let stream = tls.await.map_err(|error| at(&format!("TLS: {error}")))?;
                self.log_in(stream).await
            }
        };
        dialled.map_err(|why| at(&why))
    }

    async fn log_in<S>(&self, stream: S) -> Result<Dialled, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Deadlines are ours: those of the library belong to the runtime that
        // waits, not to the one that reads.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let (read, write) = split(stream);
        let stream = join(ReplyLimit::new(read, MAX_HALF), write);
        let made = MultiplexedConnection::new_with_config(&self.login, stream, config).await;
        let (connection, driver) = made.map_err(|error| match error.kind() {
            ErrorKind::AuthenticationFailed => "wrong user or password".to_owned(),
            _ => error.to_string(),
        })?;
        let pinged = connection.clone();
        let link = Link {
            connection,
            failed: Arc::default(),
        };
        let mut dialled = Dialled {
            connection: link,
            ended: Box::pin(async {
                tokio::select! {
                    () = driver => "it was closed or broke off".to_owned(),
                    why = watch(pinged) => why,
                }
            }),
        };
        match dialled.ask(&redis::cmd("PING")).await? {
            Value::ServerError(error) if is_fatal(&error) => Err(text(&error)),
            _ => Ok(dialled),
        }
    }
}

impl Dialled {
    /// Sends one command and drives the connection until its reply is there.
    pub(super) async fn ask(&mut self, command: &Cmd) -> Result<Value, String> {
        tokio::select! {
            why = &mut self.ended => Err(why),
            reply = self.connection.connection.send_packed_command(command) => {
                reply.map_err(|error| error.to_string())
            }
        }
    }
}

/// Pings a server, and ends when it does not reply in time.
async fn watch(mut connection: MultiplexedConnection) -> String {
    let ping = redis::cmd("PING");
    loop {
        sleep(PING_EVERY).await;
        // Any reply will do. Behind what was asked before, it waits as long as
        // that does. A connection that broke off ends its driver.
        let replied = timeout(REPLY, connection.send_packed_command(&ping));
        if replied.await.is_err() {
            return format!("no reply within {REPLY:?}");
        }
    }
}

/// Shows an error as the server worded it.
pub(crate) fn text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Tells whether what a ping was answered with means that nothing can be read. A
/// server that can't write its own disk refuses pings, and still answers.
fn is_fatal(error: &ServerError) -> bool {
    ["NOAUTH", "LOADING", "ERR"].contains(&error.code())
}

/// Requests that wait for the connection: as many as are in flight at most.
const QUEUE: usize = 256;
/// The longest a server may take for what was asked before a ping, and for it.
pub(super) const REPLY: Duration = Duration::from_secs(1);
/// A peer that is gone without a word is noticed within this and [`REPLY`].
const PING_EVERY: Duration = Duration::from_secs(1);
