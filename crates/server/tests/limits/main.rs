//! Tests the limits on what one client may hold, send and wait for on a
//! connection.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod continuations;
mod floods;
mod frames;
mod patience;
mod records;
mod stalls;

use std::sync::Arc;

use common::{LIMITS, Running, Scripted, Setup, host, start};
use rustls::pki_types::ServerName;
use sekisho_certs::Site;
use sekisho_certs::store::{LogId, LogPosition};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Server of `a.example` with a folder of files, and of `b.example` with a
/// status.
struct Fixture {
    ca: TestCa,
    folder: TempDir,
    running: Running,
}

impl Fixture {
    fn new(limits: Limits) -> Self {
        let (ca, folder) = (TestCa::new(), tempfile::tempdir().unwrap());
        let pair = ca.issue(&["a.example", "b.example"], Key::P256);
        let sites = [
            ("a.example", serde_json::json!({ "root": folder.path() })),
            ("b.example", serde_json::json!({ "status": 404 })),
        ];
        let hosts = sites.map(|(name, site)| {
            let mut found = host(name, &[(&pair, Key::P256)]);
            found.record.site = Some(Site {
                format: 1,
                json: site.to_string().into(),
            });
            found
        });
        let running = start(Scripted::new(hosts), &Setup::limits(limits));
        Self {
            ca,
            folder,
            running,
        }
    }

    /// Writes a file of `len` bytes.
    fn write(&self, path: &str, len: usize) {
        std::fs::write(self.folder.path().join(path), vec![b'x'; len]).unwrap();
    }

    async fn connect(&self, alpn: &[u8]) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(self.running.address).await.unwrap();
        self.handshake(socket, alpn).await
    }

    async fn handshake(&self, socket: TcpStream, alpn: &[u8]) -> TlsStream<TcpStream> {
        socket.set_nodelay(true).unwrap();
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![alpn.to_vec()];
        let name = ServerName::try_from("a.example").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, socket);
        connecting.await.expect("a handshake")
    }

    /// Removes a host; the server notices at the next request for it.
    fn remove(&self, host: &str) {
        self.running.store.remove(host);
        let log = LogId([7; 16]);
        self.running.lookup.restart(LogPosition {
            log,
            number: 0,
            mark: 0,
        });
    }
}
