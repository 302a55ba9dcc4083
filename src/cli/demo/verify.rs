//! The demo's own client: verified TLS, one request.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use sekisho_https::roots;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{authority, folder};
use crate::terminal::failure::Result;
use crate::wiring::open;

/// Fetches the first host's page, and requests an unknown host. Returns a
/// description of both.
pub(super) fn verify(server: SocketAddr, folder: &Path) -> Result<[String; 2]> {
    let connector = connector(&folder.join(authority::CERTIFICATE))?;
    let both = async {
        let known = fetch(&connector, server, &folder::host(1)).await?;
        let unknown = refused(&connector, server, "unknown.example").await?;
        Ok([known, unknown])
    };
    open::runtime()?.block_on(async {
        tokio::time::timeout(DEADLINE, both)
            .await
            .context("the server did not answer in time")?
    })
}

fn connector(ca: &Path) -> Result<TlsConnector> {
    let config = roots::load(Some(ca), "").and_then(|roots| roots::client(roots, None));
    let config = config.map_err(anyhow::Error::msg)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn fetch(connector: &TlsConnector, server: SocketAddr, host: &str) -> Result<String> {
    let socket = TcpStream::connect(server).await?;
    let name = ServerName::try_from(host.to_owned())?;
    let mut stream = connector
        .connect(name, socket)
        .await
        .with_context(|| host.to_owned())?;
    let version = stream
        .get_ref()
        .1
        .protocol_version()
        .and_then(|version| version.as_str());
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    ensure!(
        status.starts_with("HTTP/1.1 200"),
        "{host} answered {status:?}"
    );
    Ok(format!(
        "verified https://{host}/: {status} over {}, {} bytes",
        version.unwrap_or("TLS"),
        answer.len()
    ))
}

async fn refused(connector: &TlsConnector, server: SocketAddr, host: &str) -> Result<String> {
    let socket = TcpStream::connect(server).await?;
    let name = ServerName::try_from(host.to_owned())?;
    let Err(error) = connector.connect(name, socket).await else {
        bail!("{host} was answered, though nobody serves it");
    };
    let alert = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match alert {
        Some(rustls::Error::AlertReceived(AlertDescription::UnrecognisedName)) => {
            Ok(format!("refused https://{host}/: alert unrecognized_name"))
        }
        _ => Err(error).with_context(|| format!("{host} should have been refused by an alert")),
    }
}

const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of the longest answer; the demo's pages have a few hundred.
const MAX_ANSWER: u64 = 64 * 1024;
