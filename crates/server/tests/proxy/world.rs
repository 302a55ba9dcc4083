//! Server in front of a scripted upstream, and clients that write raw bytes.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_certs::{ClientCa, Site, Tenant};
use sekisho_server::Limits;
use sekisho_server::site::{NamedFields, RawSite};
use sekisho_testkit::{Key, TestCa, client};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) use crate::common::upstream::{OK, Upstream, Wire, field, patiently, status};
use crate::common::{LIMITS, Running, Scripted, Setup, host, start};

pub(crate) const HOST: &str = "a.example";

/// Limits of a server with one worker.
const ONE_WORKER: Limits = Limits {
    workers: 1,
    ..LIMITS
};

/// Running server whose hosts have sites of a test's choice.
pub(crate) struct World {
    pub(crate) ca: TestCa,
    pub(crate) running: Running,
}

impl World {
    /// Starts a server whose host has this site.
    pub(crate) fn new(site: &str) -> Self {
        Self::with(LIMITS, &[(HOST, site)])
    }

    /// Starts a server with these limits, and hosts with these sites.
    pub(crate) fn with(limits: Limits, sites: &[(&str, &str)]) -> Self {
        Self::of_ca(TestCa::new(), limits, sites)
    }

    /// Starts a server that asks this name server.
    pub(crate) fn resolving(at: SocketAddr, limits: Limits, sites: &[(&str, &str)]) -> Self {
        let mut setup = Setup::limits(limits);
        setup.settings.name_servers = vec![at];
        Self::of_setup(setup, sites)
    }

    /// Starts a server whose hosts have certificates of this CA.
    pub(crate) fn of_ca(ca: TestCa, limits: Limits, sites: &[(&str, &str)]) -> Self {
        Self::of(ca, None, Setup::limits(limits), sites)
    }

    /// Starts a server with these parameters.
    pub(crate) fn of_setup(setup: Setup, sites: &[(&str, &str)]) -> Self {
        Self::of(TestCa::new(), None, setup, sites)
    }

    /// Starts a server with these entries of `[sites] allow`.
    pub(crate) fn allowing(allow: &[&str], mut setup: Setup, sites: &[(&str, &str)]) -> Self {
        setup.allow = allow.iter().map(Into::into).collect();
        let sites = sites.iter().map(|(name, site)| (*name, "acme", *site));
        Self::launch(TestCa::new(), None, &setup, &sites.collect::<Vec<_>>())
    }

    /// Starts a server whose hosts demand client certificates of a CA, if any, and that
    /// tells upstreams tenant and certificate in `X-Tenant` and `Client-Cert`.
    pub(crate) fn demanding(clients: Option<&Arc<ClientCa>>, sites: &[(&str, &str)]) -> Self {
        Self::of(TestCa::new(), clients, naming_fields(), sites)
    }

    fn of(
        ca: TestCa,
        clients: Option<&Arc<ClientCa>>,
        setup: Setup,
        sites: &[(&str, &str)],
    ) -> Self {
        let sites: Vec<_> = sites
            .iter()
            .map(|(name, site)| (*name, "acme", *site))
            .collect();
        Self::of_tenants(ca, clients, setup, &sites)
    }

    /// Starts a server with one worker, and hosts of these tenants with these sites.
    pub(crate) fn shared(ca: TestCa, sites: &[(&str, &str, &str)]) -> Self {
        Self::of_tenants(ca, None, Setup::limits(ONE_WORKER), sites)
    }

    /// Starts a server with one worker and a `[site]` for hosts of these tenants.
    pub(crate) fn of_operator(site: &str, hosts: &[(&str, &str)]) -> Self {
        let mut setup = Setup::limits(ONE_WORKER);
        let raw = RawSite::read(&mut serde_json::Deserializer::from_str(site));
        setup.site = raw.unwrap().check(Some(Path::new("/"))).unwrap();
        let hosts: Vec<_> = hosts
            .iter()
            .map(|(name, tenant)| (*name, *tenant, ""))
            .collect();
        Self::of_tenants(TestCa::new(), None, setup, &hosts)
    }

    /// Starts a server with these parameters, and hosts of these tenants with these
    /// sites.
    pub(crate) fn of_tenants_with(setup: Setup, sites: &[(&str, &str, &str)]) -> Self {
        Self::of_tenants(TestCa::new(), None, setup, sites)
    }

    /// An empty site leaves the host to `[site]`.
    fn of_tenants(
        ca: TestCa,
        clients: Option<&Arc<ClientCa>>,
        mut setup: Setup,
        sites: &[(&str, &str, &str)],
    ) -> Self {
        setup.allow = vec!["127.0.0.0/8".into(), "unix:/tmp".into()];
        Self::launch(ca, clients, &setup, sites)
    }

    fn launch(
        ca: TestCa,
        clients: Option<&Arc<ClientCa>>,
        setup: &Setup,
        sites: &[(&str, &str, &str)],
    ) -> Self {
        let names: Vec<&str> = sites.iter().map(|(name, ..)| *name).collect();
        let pair = ca.issue(&names, Key::P256);
        let records = sites.iter().map(|(name, tenant, site)| {
            let mut found = host(name, &[(&pair, Key::P256)]);
            found.record.tls.client_ca = clients.cloned();
            found.record.tenant = Tenant::parse(tenant).unwrap();
            found.record.site = (!site.is_empty()).then(|| Site {
                format: 3,
                json: (*site).into(),
            });
            found
        });
        let running = start(Scripted::new(records), setup);
        Self { ca, running }
    }

    /// Connects over HTTP/1.1.
    pub(crate) async fn connect(&self) -> Wire<TlsStream<TcpStream>> {
        self.connect_to(HOST).await
    }

    /// Connects to a host over HTTP/1.1.
    pub(crate) async fn connect_to(&self, host: &str) -> Wire<TlsStream<TcpStream>> {
        let config = client::config(&self.ca);
        let stream = client::connect(self.running.address, host, config).await;
        let why = |error: io::Error| panic!("{error}:\n{}", self.counted());
        Wire::new(stream.unwrap_or_else(why))
    }

    /// Returns what the server has counted: which results handshakes and lookups had.
    fn counted(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.running.metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
        lines.flat_map(|line| [line, "\n"]).collect()
    }

    /// Sends one request to a host, and returns the status and body of its answer.
    pub(crate) async fn get(&self, host: &str) -> (u16, String) {
        let mut client = self.connect_to(host).await;
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        let (head, body) = client.answer().await;
        (status(&head), body)
    }

    /// Connects for frames of HTTP/2.
    pub(crate) async fn raw_http2(&self) -> Wire<TlsStream<TcpStream>> {
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::connect(self.running.address, HOST, config).await;
        Wire::new(stream.unwrap())
    }

    /// Connects over HTTP/2.
    pub(crate) async fn http2(&self) -> Http2 {
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::connect(self.running.address, HOST, config).await;
        speak_http2(stream.unwrap()).await
    }

    /// Sends one request over HTTP/1.1, and returns what the server answers
    /// before it closes.
    pub(crate) async fn exchange(&self, request: &str) -> String {
        let mut client = self.connect().await;
        client.send(request).await;
        String::from_utf8_lossy(&client.rest().await).into_owned()
    }
}

/// Makes parameters of a server that tells upstreams tenant and certificate.
pub(crate) fn naming_fields() -> Setup {
    let mut setup = Setup::limits(LIMITS);
    setup.named_fields = NamedFields::check(Some("X-Tenant"), Some("Client-Cert")).unwrap();
    setup
}

/// Client of one HTTP/2 connection.
pub(crate) type Http2 = http2::SendRequest<UnsyncBoxBody<Bytes, io::Error>>;

/// Begins HTTP/2 on a connection that has negotiated it.
pub(crate) async fn speak_http2(stream: TlsStream<TcpStream>) -> Http2 {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}
