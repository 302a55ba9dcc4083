//! Builds a running server of the configuration: store, lookup, feed, tickets,
//! sockets.

mod bind_error;
mod issuance;
mod metrics;
mod run;
mod status;
mod succession;
mod tasks;
mod upstreams;
mod zone;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sekisho_certs::feed::CACHE_TIMEOUT;
use sekisho_certs::metrics::Registry;
use sekisho_certs::{Clock, Documents, Feed, Follower, Lookup, NeverObtain, Obtain};
use sekisho_server::access_log::AccessLog;
use sekisho_server::admin::{Address, Admin, Listener, Sources};
use sekisho_server::metrics::Metrics;
use sekisho_server::tickets::{Keeper, Ring, Source};
use sekisho_server::{
    NameServer, Parts, Phase, Publisher, Responder, Server, Shutdown, VirtualHost,
};
use sekisho_stores::announced::Announced;
use sekisho_stores::disk_cache::DiskCache;
use sekisho_stores::worker;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::config::{Config, Size};
use crate::handover::Taken;
use crate::process;
use crate::terminal::failure::Result;
use crate::wiring::hook;
use crate::wiring::open::{self, Opened};
use crate::wiring::serving::issuance::Issuance;
use crate::wiring::serving::metrics::registry;
use crate::wiring::serving::status::Status;
use crate::wiring::serving::succession::Succession;
use crate::wiring::serving::tasks::Tasks;

/// Server whose sockets are bound, and its background tasks.
pub(crate) struct Serving {
    /// Runtime of all background tasks.
    background: Runtime,
    server: Server,
    issuance: Option<Arc<Issuance>>,
    /// Name server, and what stops it.
    zone: Option<(NameServer, Shutdown)>,
    ring: Arc<Ring>,
    access_log: Option<Arc<AccessLog>>,
    tasks: Tasks,
    lookup: Arc<Lookup<VirtualHost>>,
    responder: Arc<Responder>,
    disk: Option<Arc<DiskCache>>,
    succession: Succession,
    /// Shuts the server down.
    pub(crate) shutdown: Shutdown,
    /// Time from the start of the process until all sockets were bound.
    pub(crate) start_up: Duration,
}

impl Serving {
    /// Opens the store and binds all addresses but those that were `taken` over, without
    /// accepting. `begun` is when the process began.
    pub(crate) fn build(config: &Config, begun: Instant, mut taken: Taken) -> Result<Self> {
        let upstreams = check_process(config);
        let background = background()?;
        let metrics = Arc::new(Metrics::default());
        let mut succession = Succession::new(&background, &mut taken, &metrics)?;
        let disk = open::Disk::With(taken.disk_cache.take());
        let opened = background.block_on(open::serving(config, disk))?;
        let ring = Arc::new(Ring::random());
        let own_addresses = Arc::new(config.own_addresses());
        let guard = Arc::new(config.guard(Arc::clone(&own_addresses)));
        let issuance = open::issuer(config, &opened)?.map(Issuance::new);
        let issuance = issuance.transpose()?.map(Arc::new);
        let obtain: Arc<dyn Obtain> = match &issuance {
            Some(issuance) => issuance.on_demand(),
            None => Arc::new(NeverObtain),
        };
        let publisher = Publisher::new(Arc::clone(&ring), config.site.clone(), Arc::clone(&guard));
        let publisher = Arc::new(publisher);
        let lookup = open::lookup(config, Arc::clone(&opened.store) as _, &publisher, obtain);
        let hook = hook::open(config, publisher, &lookup, background.handle(), false)?;
        let documents = Arc::new(Documents::default());
        let handed = taken.ticket_keys.take();
        let keeper = keeper(config, &opened, &documents, Arc::clone(&ring), handed);
        let feed = background.block_on(feed(&opened, &lookup, documents));
        let keeper = background.block_on(filled(keeper, &opened));
        let (shutdown, access_log) = (Shutdown::default(), open::access_log::open(config)?);
        let parts = Parts {
            lookup,
            metrics: Arc::clone(&metrics),
            responder: Arc::new(Responder::new(config.cache.files, guard)),
            // Another server may order, and a command that orders has no sockets.
            challenges: opened.challenges.clone(),
            access_log: access_log.clone(),
            hook: hook.as_ref().map(hook::Opened::parts),
            clock: Clock::System,
            loop_id: background.block_on(upstreams::loop_id(config, &opened)),
            load_roots: upstreams::roots,
            on_worker: worker::register,
        };
        let zone = zone::build(config, &opened, &mut taken, &mut succession.zones)?;
        let record = &succession.record;
        let (orders, named) = (issuance.as_deref(), zone.as_ref());
        let registry = registry(&opened, &parts, orders, named, hook.as_ref(), record);
        let (lookup, responder) = (parts.lookup.clone(), parts.responder.clone());
        let status = Status::new(config, &parts, &opened, record);
        let sources = sources(config, &parts, registry, &shutdown, status, &succession);
        let inherited = std::mem::take(&mut taken.listeners);
        let server = Server::build(config.settings(upstreams), parts, inherited)
            .map_err(bind_error::with_hint)?;
        let admin = admin(config, sources, &mut taken, &mut succession);
        let admin = background.block_on(admin)?;
        own_addresses.bind(bound(&server, admin.as_ref()));
        let listener = admin.as_ref().map(|(listener, _)| listener);
        succession.keep_sockets(config, &server, listener)?;
        // The workers, which handle clients' bytes, start after this without the right to bind.
        process::give_up_binding();
        let start_up = begun.elapsed();
        metrics.listening(start_up);
        Ok(Self {
            background,
            server,
            issuance,
            zone: zone.map(|zone| (zone, shutdown.clone())),
            ring,
            access_log,
            tasks: Tasks {
                feed,
                keeper,
                own_addresses,
                announced: config.announced().map(Announced::subscribe).collect(),
                admin,
            },
            lookup,
            responder,
            disk: opened.disk,
            succession,
            shutdown,
            start_up,
        })
    }

    /// Returns the first TLS address, with the port that the system chose.
    pub(crate) fn https(&self) -> SocketAddr {
        self.server.addresses().https[0]
    }

    /// Logs the addresses and the store.
    fn announce(&self, config: &Config) {
        let addresses = self.server.addresses();
        let admin = self.tasks.admin.as_ref();
        let admin = admin.and_then(|(listener, _)| listener.address().ok());
        tracing::info!(
            https = joined(&addresses.https),
            http = joined(&addresses.http),
            admin = joined(admin.as_slice()),
            store = config.store.url.to_string(),
            cache_memory = %Size(config.cache.memory),
            config = %config.file.display(),
            start_up_ms = (self.start_up.as_secs_f64() * 10_000.0).round() / 10.0,
            version = env!("CARGO_PKG_VERSION"),
            "serving"
        );
    }
}

/// Warns of what the process lacks. Returns how many connections to upstreams may be open.
fn check_process(config: &Config) -> usize {
    let upstreams = process::check_files(process::open_all_files(), config);
    process::check_memory(config);
    process::check_user();
    upstreams
}

/// Makes the runtime of all background tasks: one thread.
fn background() -> Result<Runtime> {
    let builder = &mut Builder::new_current_thread();
    let runtime = builder.enable_all().thread_name("background").build();
    runtime.context("the background runtime could not be started")
}

/// Makes the change feed. Its followers get each page of the catalog's log in
/// this order.
async fn feed(
    opened: &Opened,
    lookup: &Arc<Lookup<VirtualHost>>,
    documents: Arc<Documents>,
) -> Option<Feed> {
    let sealer = opened.catalog.as_ref()?;
    let redis = opened.redis.clone().map(|redis| redis as Arc<dyn Follower>);
    let disk = opened.disk.clone().map(|disk| disk as Arc<dyn Follower>);
    let keys = Arc::new(sealer.clone());
    let feed = Feed::new(Arc::clone(sealer.catalog()) as _, Arc::clone(sealer.seen()));
    let caches = redis.into_iter().chain(disk);
    let feed = feed.first(caches, CACHE_TIMEOUT).then(keys);
    let mut feed = feed.then(lookup.clone()).then(documents);
    if let Some(at) = opened.disk.as_ref().and_then(|disk| disk.position()) {
        feed.begin_at(at).await;
    }
    Some(feed)
}

/// Makes the keeper of ticket keys: from the catalog, else from the configured
/// file, else random ones. It begins with those of the process before.
fn keeper(
    config: &Config,
    opened: &Opened,
    documents: &Documents,
    ring: Arc<Ring>,
    handed: Option<Zeroizing<Vec<u8>>>,
) -> Keeper {
    let source = match (&opened.catalog, &config.tickets) {
        (Some(sealer), _) => Source::Catalog(sealer.clone(), documents.subscribe()),
        (_, Some(file)) => Source::File(file.clone()),
        _ => Source::Process,
    };
    let mut keeper = Keeper::new(source, ring, Clock::System);
    if let Some(keys) = handed {
        keeper.begin_with_keys(&keys);
    }
    keeper
}

/// Reads the ticket keys, and waits at most [`TICKET_KEYS`]: clients of an
/// earlier process can then resume at once.
async fn filled(mut keeper: Keeper, opened: &Opened) -> Keeper {
    let problem = match timeout(TICKET_KEYS, keeper.refresh()).await {
        Ok(Ok(_)) => return keeper,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the store did not answer within {TICKET_KEYS:?}"),
    };
    let known = opened.start.iter().flat_map(|start| &start.documents);
    for document in known {
        if keeper.begin_with(document).await {
            return keeper;
        }
    }
    tracing::warn!(
        problem,
        "no ticket keys yet, sessions of an earlier process end"
    );
    keeper
}

/// Returns what the admin listener shows.
fn sources(
    config: &Config,
    parts: &Parts,
    registry: Registry,
    shutdown: &Shutdown,
    status: Status,
    succession: &Succession,
) -> Sources {
    let lookup = Arc::clone(&parts.lookup);
    let shutdown = shutdown.clone();
    Sources {
        registry,
        metrics: Arc::clone(&parts.metrics),
        lookup_stats: Box::new(move || lookup.stats()),
        draining: Box::new(move || shutdown.phase() > Phase::Serving),
        sites_digest: config.sites_digest().into(),
        status: status.source(),
        control: succession.control(),
    }
}

/// Binds the admin listener, or takes the socket that another process gave for the same
/// address, and says so.
async fn admin(
    config: &Config,
    sources: Sources,
    taken: &mut Taken,
    succession: &mut Succession,
) -> Result<Option<(Listener, Admin)>> {
    let Some(address) = &config.listen.admin else {
        return Ok(None);
    };
    let token = open::admin_token(config)?;
    let given = Succession::given_admin(config, taken);
    let inherited = given.map(|socket| Listener::inherit(address, socket));
    let listener = match inherited {
        // Of another address that is written alike, or its file was removed.
        Some(Err(error)) if error.kind() != ErrorKind::InvalidInput => Err(error),
        Some(Ok(listener)) => {
            succession.takes_admin = true;
            Ok(listener)
        }
        _ => Listener::bind(address).await,
    };
    let listener = listener.with_context(|| match address {
        Address::Tcp(_) => format!("can't listen on {address}"),
        Address::Unix(_) => format!(
            "can't listen on {address}; its folder must be there and writable: \
             RuntimeDirectory= in a systemd unit"
        ),
    })?;
    Ok(Some((listener, Admin::new(sources, token))))
}

/// Lists the addresses that the server listens on, with the ports that the
/// system chose.
fn bound(server: &Server, admin: Option<&(Listener, Admin)>) -> Vec<SocketAddr> {
    let addresses = server.addresses();
    let admin = admin.and_then(|(listener, _)| match listener.address() {
        Ok(Address::Tcp(address)) => Some(address),
        _ => None,
    });
    let all = addresses.https.iter().chain(&addresses.http).copied();
    all.chain(admin).collect()
}

fn joined(addresses: &[impl ToString]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// Longest wait of the start for ticket keys.
const TICKET_KEYS: Duration = Duration::from_millis(500);
