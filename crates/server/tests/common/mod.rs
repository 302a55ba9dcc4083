//! Real server on port 0 with a scripted store.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod challenges;
pub mod metrics;
pub mod segments;
pub mod store;
pub mod upstream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use sekisho_certs::{Challenges, Clock, HostName, Lookup, LookupSettings, NeverObtain, Obtain};
use sekisho_server::access_log::AccessLog;
use sekisho_server::hook::{Clients, Hook};
use sekisho_server::metrics::Metrics;
use sekisho_server::network::Networks;
use sekisho_server::site::{Allowed, Guard, NamedFields, OwnAddresses, OwnFiles, Site};
use sekisho_server::tickets::Ring;
use sekisho_server::{
    CertificateWaits, Defaults, Error, Inherited, Limits, LoopId, Parts, Publisher, Responder,
    Server, Settings, Shutdown, VirtualHost,
};
use sekisho_testkit::{TestCa, client};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub use sekisho_testkit::Scripted;
pub use store::host;

/// Parameters of a test's server.
pub struct Setup {
    pub settings: Settings,
    /// Site of hosts without their own.
    pub site: Site,
    /// Entries of `[sites] allow`.
    pub allow: Vec<PathBuf>,
    /// Files that no site serves.
    pub own: Vec<PathBuf>,
    /// Fields that only the server sets towards upstreams.
    pub named_fields: NamedFields,
    /// Folders with keys.
    pub keys: Vec<PathBuf>,
    /// Addresses that no upstream of a record has.
    pub own_addresses: Arc<OwnAddresses>,
    pub ring: Arc<Ring>,
    pub clock: Clock,
    pub obtain: Arc<dyn Obtain>,
    pub challenges: Option<Arc<Challenges>>,
    pub access_log: Option<Arc<AccessLog>>,
    /// Makes the hook.
    pub hook: Option<Box<MakeHook>>,
}

/// Makes a hook.
pub type MakeHook = dyn Fn(&Clients) -> Arc<dyn Hook>;

impl Default for Setup {
    fn default() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            settings: Settings {
                https: vec![any_port],
                http: vec![any_port],
                plain: false,
                public_port: None,
                proxies: Networks::default(),
                trusted: Networks::default(),
                defaults: Defaults::default(),
                limits: LIMITS,
                name_servers: Vec::new(),
                upstreams: 4096,
                bodies: 256 << 20,
            },
            site: Site::not_found(),
            allow: vec![std::env::temp_dir()],
            own: Vec::new(),
            named_fields: NamedFields::default(),
            keys: Vec::new(),
            own_addresses: Arc::default(),
            ring: Arc::new(Ring::random()),
            clock: Clock::System,
            obtain: Arc::new(NeverObtain),
            challenges: None,
            access_log: None,
            hook: None,
        }
    }
}

impl Setup {
    /// Makes parameters with these limits instead of [`LIMITS`].
    pub fn limits(limits: Limits) -> Self {
        let mut setup = Self::default();
        setup.settings.limits = limits;
        setup
    }

    /// Makes parameters with a default host for clients without SNI.
    pub fn with_default(host: &str) -> Self {
        let mut setup = Self::default();
        setup.settings.defaults.any = Some(HostName::parse(host).expect("a host"));
        setup
    }
}

/// Limits that no test reaches by accident.
pub const LIMITS: Limits = Limits {
    workers: 2,
    connections: 4096,
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(15),
    idle: Duration::from_secs(60),
    body: Duration::from_secs(30),
    drain: Duration::from_secs(30),
    host_look: Limits::HOST_LOOK,
    absent_per_prefix: 600,
    loads: 256,
    loads_per_prefix: 64,
    loads_waiting: 4096,
    certificates: CertificateWaits {
        waiting: 1000,
        time: Duration::from_secs(20),
    },
};

/// Running server.
pub struct Running {
    pub address: SocketAddr,
    pub http: SocketAddr,
    pub store: Arc<Scripted>,
    pub lookup: Arc<Lookup<VirtualHost>>,
    pub metrics: Arc<Metrics>,
    pub responder: Arc<Responder>,
    pub shutdown: Shutdown,
    pub ended: JoinHandle<Result<usize, Error>>,
}

/// Starts a server.
pub fn start(store: impl Into<Arc<Scripted>>, setup: &Setup) -> Running {
    let store = store.into();
    let entries = setup.allow.iter().map(|entry| entry.to_string_lossy());
    let entries: Vec<_> = entries.collect();
    let allowed = Allowed::parse(&entries, Path::new("/")).expect("entries");
    let own = OwnFiles::new(setup.own.clone()).with_keys(setup.keys.clone());
    let guard = Guard::new(allowed, own).with_fields(setup.named_fields.clone());
    let guard = Arc::new(guard.with_addresses(Arc::clone(&setup.own_addresses)));
    let publisher = Publisher::new(
        Arc::clone(&setup.ring),
        setup.site.clone(),
        Arc::clone(&guard),
    );
    let settings = LookupSettings {
        memory: 16 << 20,
        fresh: Duration::from_secs(3600),
        absent: Duration::from_secs(3600),
    };
    let lookup = Lookup::new(
        Arc::clone(&store) as Arc<dyn sekisho_certs::Store>,
        &settings,
        Arc::clone(&setup.obtain),
        move |host| publisher.publish(host),
    );
    let metrics = Arc::new(Metrics::default());
    let responder = Arc::new(Responder::new(1 << 20, guard));
    let parts = Parts {
        lookup: Arc::clone(&lookup),
        metrics: Arc::clone(&metrics),
        responder: Arc::clone(&responder),
        challenges: setup.challenges.clone(),
        access_log: setup.access_log.clone(),
        hook: setup.hook.as_ref().map(|hook| {
            let clients = Clients::new(&lookup, &setup.settings.limits);
            (hook(&clients), clients)
        }),
        clock: setup.clock.clone(),
        loop_id: LoopId::new([7; 16]),
        load_roots: || Ok(RootCertStore::empty()),
        on_worker: || {},
    };
    let server =
        Server::build(setup.settings.clone(), parts, Inherited::default()).expect("a server");
    let addresses = server.addresses().clone();
    let shutdown = Shutdown::default();
    Running {
        address: addresses.https[0],
        http: addresses.http[0],
        store,
        lookup,
        metrics,
        responder,
        ended: tokio::spawn(server.run(shutdown.clone())),
        shutdown,
    }
}

/// Returns the alert that a handshake for `name` ends with.
pub async fn alert(running: &Running, name: &str, config: ClientConfig) -> String {
    match client::connect(running.address, name, config).await {
        Ok(_) => "none: the handshake succeeded".into(),
        Err(error) => error.to_string(),
    }
}

/// Returns the status line of one request.
pub async fn status(running: &Running, name: &str, config: ClientConfig) -> io::Result<String> {
    let answer = client::fetch(running.address, name, "/", config).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

/// Returns what the server answers to these bytes before it closes.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut socket, bytes)
        .await
        .expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("no reset");
    answer
}

/// Makes the configuration of a client that resumes sessions.
pub fn resuming(ca: &TestCa, tls12: bool) -> Arc<ClientConfig> {
    let mut config = if tls12 {
        client::config_tls12(ca)
    } else {
        client::config(ca)
    };
    config.resumption = rustls::client::Resumption::in_memory_sessions(16);
    Arc::new(config)
}

/// Socket that writes one byte at a time.
pub struct Dribble(pub TcpStream);

impl tokio::io::AsyncRead for Dribble {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl tokio::io::AsyncWrite for Dribble {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        let one = buf.get(..1).unwrap_or(buf);
        std::pin::Pin::new(&mut self.0).poll_write(cx, one)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
