//! From an address to a connection that answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, Pipeline, RedisConnectionInfo, ServerError, Value};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::reply_limit::ReplyLimit;
use super::url::{Login, Node};
use crate::pem_pair::MAX_HALF;

/// Login and TLS of all connections to one kind of server.
#[derive(Clone)]
pub(super) struct Dialer {
    info: RedisConnectionInfo,
    tls: Option<Arc<ClientConfig>>,
}

/// A new connection, and the future that reads and writes for it: no request is
/// answered unless that is polled.
pub(super) struct Dialled {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: Driver,
}

pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Dialer {
    pub(super) fn new(login: &Login, database: u32, tls: Option<Arc<ClientConfig>>) -> Self {
        let mut info = RedisConnectionInfo::default()
            .set_db(database.into())
            .set_skip_set_lib_name();
        if let Some(user) = &login.user {
            info = info.set_username(user);
        }
        if let Some(password) = login.password() {
            info = info.set_password(password);
        }
        Self { info, tls }
    }

    /// Connects, logs in and gets a first answer. The caller bounds the time.
    pub(super) async fn dial(&self, node: &Node) -> Result<Dialled, String> {
        let at = |what: &dyn std::fmt::Display| format!("{node}: {what}");
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
        let stream = ReplyLimit::new(stream, MAX_HALF);
        let made = MultiplexedConnection::new_with_config(&self.info, stream, config).await;
        let (connection, driver) = made.map_err(|error| match error.kind() {
            ErrorKind::AuthenticationFailed => "wrong user or password".to_owned(),
            _ => error.to_string(),
        })?;
        let mut dialled = Dialled {
            connection,
            driver: Box::pin(driver),
        };
        let answer = dialled.ask(redis::pipe().cmd("PING")).await?;
        match answer {
            Value::ServerError(error) if is_fatal(&error) => Err(text(&error)),
            _ => Ok(dialled),
        }
    }
}

impl Dialled {
    /// Sends one command and drives the connection until its reply is there.
    pub(super) async fn ask(&mut self, command: &Pipeline) -> Result<Value, String> {
        let answers = self.connection.send_packed_commands(command, 0, 1);
        tokio::select! {
            () = &mut self.driver => Err("the connection was closed".to_owned()),
            answers = answers => match answers {
                Ok(mut answers) => answers.pop().ok_or_else(|| "no answer".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// Any answer will do.
pub(super) async fn ping(connection: &MultiplexedConnection) {
    let mut ping = redis::pipe();
    ping.cmd("PING");
    // A connection that broke off ends its driver, which is watched.
    let _ = connection.clone().send_packed_commands(&ping, 0, 1).await;
}

/// An error as the server worded it.
pub(crate) fn text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Whether what a ping was answered with means that nothing can be read. A
/// server that can't write its own disk refuses pings, and still answers.
fn is_fatal(error: &ServerError) -> bool {
    ["NOAUTH", "LOADING", "ERR"].contains(&error.code())
}

/// Requests that wait for the connection: as many as are in flight at most.
const QUEUE: usize = 256;
