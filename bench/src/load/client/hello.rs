//! ClientHellos without the rest of a handshake.

use clap::ValueEnum;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Client;
use crate::load::failure::Failure;

/// Part of a ClientHello that is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Part {
    /// The server waits for the rest.
    Half,
    /// The client waits for the server.
    Whole,
}

impl Client {
    /// Connects and sends a ClientHello, or its first half.
    pub(crate) async fn hello(&self, host: &str, part: Part) -> Result<TcpStream, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Failure::Name)?;
        let config = self.tls.config().clone();
        let mut connection =
            ClientConnection::new(config, name).map_err(|_| Failure::Response("no ClientHello"))?;
        let mut bytes = Vec::new();
        let written = connection.write_tls(&mut bytes);
        written.map_err(Failure::Handshake)?;
        if part == Part::Half {
            bytes.truncate(bytes.len() / 2);
        }
        self.bounded(async {
            let mut socket = self.connect().await.map_err(Failure::Connect)?;
            let sent = socket.write_all(&bytes).await;
            sent.map_err(Failure::Exchange)?;
            Ok(socket)
        })
        .await
    }
}
