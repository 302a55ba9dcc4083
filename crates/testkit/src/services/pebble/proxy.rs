//! Proxy in front of Pebble that shows a test each request.

use std::error::Error;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, oneshot};
use tokio_rustls::TlsAcceptor;

use super::Pebble;
use crate::ca::Key;
use crate::client;
use crate::endpoint::{Speaks, acceptor};

/// CA of its own for its clients: Pebble's URLs name the host that it is asked for.
/// Dropping it ends its connections.
pub struct CaProxy {
    port: u16,
    _running: oneshot::Sender<()>,
}

struct Way {
    pebble: SocketAddr,
    config: ClientConfig,
    judge: Box<Judge>,
}

/// Request on its way to Pebble, and again with the answer on its way back.
pub(super) struct Passing<'a> {
    pub(super) path: &'a str,
    pub(super) request: &'a [u8],
    /// Status and body; none before Pebble is asked.
    pub(super) answer: Option<(u16, &'a [u8])>,
}

/// What becomes of a request, or of its answer.
pub(super) enum Verdict {
    /// It goes on.
    Pass,
    /// It goes no further: the client waits in vain.
    Hang,
    /// The client gets this in its place.
    Answer(Response<Full<Bytes>>),
}

type Judge = dyn Fn(&Passing<'_>) -> Verdict + Send + Sync;
type Upstream = Mutex<Option<SendRequest<Full<Bytes>>>>;
type Fault = Box<dyn Error + Send + Sync>;

impl Pebble {
    /// Starts a proxy on a free port. `watch` is shown the path of each request before
    /// it is forwarded, and again with the status before the answer is returned. False
    /// means that it goes no further: the client then waits in vain.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn proxy(
        &self,
        watch: impl Fn(&str, Option<u16>) -> bool + Send + Sync + 'static,
    ) -> CaProxy {
        self.judged(move |passing| {
            let status = passing.answer.map(|(status, _)| status);
            match watch(passing.path, status) {
                true => Verdict::Pass,
                false => Verdict::Hang,
            }
        })
    }

    /// Starts a proxy on a free port that asks `judge` before each request is forwarded
    /// and before each answer is returned.
    pub(super) fn judged(
        &self,
        judge: impl Fn(&Passing<'_>) -> Verdict + Send + Sync + 'static,
    ) -> CaProxy {
        let pair = self.ca.issue(&["127.0.0.1"], Key::P256);
        let tls = acceptor(Speaks::Http1(&pair)).expect("it speaks TLS");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let way = Arc::new(Way {
            pebble: (Ipv4Addr::LOCALHOST, self.port).into(),
            config: client::config(&self.ca),
            judge: Box::new(judge),
        });
        let (running, ended) = oneshot::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                tokio::select! {
                    () = accept(listener, tls, way) => {}
                    _ = ended => {}
                }
            });
        });
        CaProxy {
            port,
            _running: running,
        }
    }
}

impl CaProxy {
    /// Returns its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn accept(listener: std::net::TcpListener, tls: TlsAcceptor, way: Arc<Way>) {
    let listener = TcpListener::from_std(listener).expect("a runtime with sockets");
    loop {
        let (socket, _) = listener.accept().await.expect("files are left");
        let (tls, way) = (tls.clone(), Arc::clone(&way));
        tokio::spawn(async move {
            // The client sees how its connection ends.
            let _ = way.serve(socket, tls).await;
        });
    }
}

impl Way {
    async fn serve(&self, socket: TcpStream, tls: TlsAcceptor) -> Result<(), Fault> {
        let stream = tls.accept(socket).await?;
        let upstream = Upstream::default();
        let service = service_fn(|request| self.exchange(request, &upstream));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        Ok(connection.await?)
    }

    async fn exchange(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
    ) -> Result<Response<Full<Bytes>>, Fault> {
        let path = request.uri().path().to_owned();
        let (head, body) = request.into_parts();
        let asked = body.collect().await?.to_bytes();
        let mut passing = Passing {
            path: &path,
            request: &asked,
            answer: None,
        };
        if let Some(answer) = self.judge(&passing).await {
            return Ok(answer);
        }
        let mut kept = upstream.lock().await;
        let mut sender = match kept.take().filter(SendRequest::is_ready) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request = Request::from_parts(head, Full::from(asked.clone()));
        let (mut head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        *kept = Some(sender);
        head.headers.remove(TRANSFER_ENCODING);
        passing.answer = Some((head.status.as_u16(), &body));
        if let Some(answer) = self.judge(&passing).await {
            return Ok(answer);
        }
        Ok(Response::from_parts(head, Full::from(body)))
    }

    /// Returns the answer that takes the place of Pebble's; none if the request passes.
    async fn judge(&self, passing: &Passing<'_>) -> Option<Response<Full<Bytes>>> {
        match (self.judge)(passing) {
            Verdict::Pass => None,
            Verdict::Hang => pending().await,
            Verdict::Answer(answer) => Some(answer),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Fault> {
        let stream = client::connect(self.pebble, "127.0.0.1", self.config.clone()).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::services::PebbleOptions;

    #[tokio::test]
    async fn it_shows_each_request_and_is_a_ca_of_its_own() {
        let pebble = Pebble::start(&PebbleOptions::default());
        let (seen, shown) = mpsc::channel();
        let proxy = pebble.proxy(move |path, status| {
            seen.send((path.to_owned(), status)).unwrap();
            path == "/dir" || status.is_none()
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, proxy.port()));
        let host = format!("127.0.0.1:{}", proxy.port());
        let fetch = async |path| {
            let tls = client::connect(address, "127.0.0.1", client::config(&pebble.ca));
            let io = TokioIo::new(tls.await.unwrap());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get(path).header("host", &host);
            let request = request.header("user-agent", "testkit");
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            answer.into_body().collect().await.unwrap().to_bytes()
        };
        let directory = fetch("/dir").await;
        let directory = String::from_utf8_lossy(&directory);
        let order = format!("https://{host}/order-plz");
        assert!(directory.contains(&order), "{directory}");
        let hung = timeout(Duration::from_millis(200), fetch("/nonce-plz"));
        assert!(hung.await.is_err());
        let expected = [("/dir", None), ("/dir", Some(200)), ("/nonce-plz", None)];
        for (path, status) in expected {
            assert_eq!(shown.recv().unwrap(), (path.to_owned(), status));
        }
        assert_eq!(shown.recv().unwrap().0, "/nonce-plz");
    }
}
