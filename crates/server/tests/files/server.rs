//! Site behind hyper on a real socket, and a raw HTTP/1.1 client.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_certs::{HostName, Tenant};
use sekisho_server::OpenFiles;
use sekisho_server::Responder;
use sekisho_server::site::{Allowed, Guard, OwnFiles, Site, SiteDocument, SiteError};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Server of the folder `www`, which lies beside a folder `secrets`.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("www");
        fs::create_dir(&root).unwrap();
        let json = serde_json::json!({ "root": root }).to_string();
        let site = site(&json).unwrap();
        let address = serve(site).await;
        Self { folder, address }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("www").join(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write_at(&self.path(path), content);
    }

    pub(crate) async fn get(&self, path: &str, headers: &str) -> Answer {
        self.request("GET", path, headers).await
    }

    pub(crate) async fn request(&self, method: &str, path: &str, headers: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{headers}\r\n"
        );
        exchange(self.address, request.as_bytes()).await
    }
}

/// Answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub(crate) fn site(json: &str) -> Result<Site, SiteError> {
    SiteDocument::parse(json)?.site(&Tenant::default())
}

/// Makes a guard that allows the system's folder for temporary files.
fn guard() -> Arc<Guard> {
    let allowed = Allowed::parse(
        &[std::env::temp_dir().to_string_lossy()],
        std::path::Path::new("/"),
    )
    .unwrap();
    Arc::new(Guard::new(allowed, OwnFiles::default()))
}

pub(crate) async fn serve(site: Site) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let responder = Arc::new(Responder::new(16 << 20, guard()));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (responder, site) = (Arc::clone(&responder), site.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (responder, site) = (Arc::clone(&responder), site.clone());
                let (head, _) = request.into_parts();
                async move {
                    let host = HostName::parse("a.example").unwrap();
                    Ok::<_, std::convert::Infallible>(
                        responder
                            .respond_locally(&site, &host, &head, &OpenFiles::default())
                            .await,
                    )
                }
            });
            tokio::spawn(async move {
                let mut preface = [0; 3];
                socket.peek(&mut preface).await.unwrap();
                let io = TokioIo::new(socket);
                if &preface == b"PRI" {
                    let http2 = http2::Builder::new(TokioExecutor::new());
                    let _ = http2.serve_connection(io, service).await;
                } else {
                    let _ = http1::Builder::new().serve_connection(io, service).await;
                }
            });
        }
    });
    address
}

pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = bytes.split_off(end.expect("a head") + 4);
    Answer {
        head: String::from_utf8(bytes).unwrap(),
        body,
    }
}

pub(crate) fn write_at(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(784_111_777))
        .unwrap();
}

/// Time that [`write_at`] gives each file, as an HTTP date.
pub(crate) const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
