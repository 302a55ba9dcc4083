//! The server: [`Server::build`] binds its sockets, [`Server::run`] serves
//! until shutdown.
//!
//! # What a stage is given
//!
//! There is no bag of everything: each stage has a struct of the parts that it uses, made by
//! `assemble` in `server.rs`.
//!
//! | struct | file | who has it |
//! | --- | --- | --- |
//! | `Hosts`: lookup, budget, metrics, time limit, log limits | lookup/ask.rs | all that look a host up |
//! | `Chooser`: the hook, its hosts, the defaults of addresses | lookup/hook/resolve.rs | handshakes and routing |
//! | `Answers` of challenges | lookup/challenge.rs | handshakes, HTTP and port 80 |
//! | `Handshakes`: hosts, chooser, answers, defaults, clock, time limit | connection/handshake.rs | `Common`, one for all workers |
//! | `Routing` | http/route.rs | the `Routes` of each connection |
//! | `Service`: what answers requests, for all workers; `Local` adds a worker's builder, drain and upstreams | http/context.rs | each connection |
//! | `Upstreams`: servers, descriptors, TLS clients, guard; `Worker` adds its pools | upstream/parts.rs | each proxied request |
//! | `Connection`: facts of a connection, its timeouts, its permits of open files, the drain, and the takeover below a mutex; `RequestContext` adds facts of a request | connection/request.rs | files, upstream and fields |
//! | `Common`: `Handshakes`, `Service`, `Upstreams`, proxies, limits, metrics; `Local` adds a worker's gate of signatures and its `Local` of HTTP | run/worker.rs | all workers |

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use sekisho_certs::{Challenges, Clock, Lookup};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::cgi::{self, Programs};
use crate::connection::connections::Connections;
use crate::connection::handshake::Handshakes;
use crate::error::Error;
use crate::http::respond::Responder;
use crate::http::route::Routing;
use crate::http::{Numbers, Service};
use crate::limits::bodies::Bodies;
use crate::limits::budget::Budget;
use crate::limits::settings::Settings;
use crate::lookup::ask::Hosts;
use crate::lookup::challenge::Answers;
use crate::lookup::hook::{Chooser, Clients, Hook};
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::access_log::AccessLog;
use crate::observe::metrics::Metrics;
use crate::run::listen::{Inherited, Listening};
use crate::run::shutdown::Shutdown;
use crate::run::worker::{Common, Socket, Worker, Working};
use crate::upstream::{
    Background, Collecting, Descriptors, LoadRoots, LoopId, Servers, Sockets, TlsClients, Upstreams,
};

/// A server whose sockets are bound and which accepts nothing yet.
pub struct Server {
    workers: Vec<Worker>,
    addresses: Addresses,
    background: Background,
    upstreams: Arc<Upstreams>,
}

/// Addresses that a server listens on, with the ports that the system chose.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// In the order of [`Settings::https`].
    pub https: Vec<SocketAddr>,
    /// In the order of [`Settings::http`].
    pub http: Vec<SocketAddr>,
}

/// Components that a server is built from, besides its settings.
#[derive(Clone)]
pub struct Parts {
    /// Host lookup; its cache is filled by [`crate::Publisher::publish`].
    pub lookup: Arc<Lookup<VirtualHost>>,
    /// Counters of the server.
    pub metrics: Arc<Metrics>,
    /// Responder that answers requests from their site.
    pub responder: Arc<Responder>,
    /// Challenges that are answered for CAs; without them, `acme-tls/1` is
    /// refused, and tokens are paths like any other.
    pub challenges: Option<Arc<Challenges>>,
    /// Access log, if requests are logged.
    pub access_log: Option<Arc<AccessLog>>,
    /// Hook that chooses before the lookup, if there is one, and what it may cost its
    /// clients, made with the limits of these settings.
    pub hook: Option<(Arc<dyn Hook>, Clients)>,
    /// Clock that certificates' validity is checked against.
    pub clock: Clock,
    /// Name of the catalog's servers towards upstreams.
    pub loop_id: LoopId,
    /// Reads the authorities that upstreams are verified with where a site names
    /// none.
    pub load_roots: LoadRoots,
    /// Hook that each worker calls first, on its own runtime. A store with
    /// connections of each worker registers the worker there.
    pub on_worker: fn(),
}

impl Server {
    /// Takes the `inherited` sockets of each address, and binds one for each worker that
    /// lacks one.
    ///
    /// # Errors
    /// [`Error::Bind`] if an address can't be bound.
    pub fn build(
        settings: Settings,
        parts: Parts,
        mut inherited: Inherited,
    ) -> Result<Self, Error> {
        let count = settings.limits.workers;
        let mut bind = |addresses: &[SocketAddr]| -> Result<Vec<Listening>, Error> {
            let bind = |address: &SocketAddr| Listening::bind(*address, count, &mut inherited);
            addresses.iter().map(bind).collect()
        };
        let (https, http) = (bind(&settings.https)?, bind(&settings.http)?);
        for address in inherited.unused() {
            tracing::info!(%address, "closed a socket that [listen] does not name");
        }
        let bound = |listening: &[Listening]| listening.iter().map(|one| one.bound).collect();
        let addresses = Addresses {
            https: bound(&https),
            http: bound(&http),
        };
        let first = || addresses.https.first().map_or(HTTPS, SocketAddr::port);
        let https_port = settings.public_port.unwrap_or_else(first);
        let all = || https.iter().chain(&http);
        // Of an address with more sockets than workers, some workers have one more.
        let sockets = all().map(|one| one.sockets.len().div_ceil(count)).sum();
        let limit = settings.limits.connections;
        let metrics = Arc::clone(&parts.metrics);
        let (common, background) = assemble(settings, parts, https_port);
        let connections = Connections::of_workers(count, limit, sockets, metrics);
        let mut workers: Vec<Worker> = Working::all(count)
            .zip(connections)
            .map(|(working, connections)| Worker {
                common: Arc::clone(&common),
                connections,
                sockets: Vec::new(),
                working,
                turns: Arc::default(),
            })
            .collect();
        deal(https, true, &mut workers);
        deal(http, false, &mut workers);
        Ok(Self {
            workers,
            addresses,
            background,
            upstreams: Arc::clone(&common.upstreams),
        })
    }

    /// Returns the bound addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Duplicates the listening sockets of all workers, with their addresses as they were
    /// configured, for a process that takes this one's place.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn listeners(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let sockets = self.workers.iter().flat_map(|worker| &worker.sockets);
        let duplicate = |one: &Socket| Ok((one.configured, one.socket.try_clone()?.into()));
        sockets.map(duplicate).collect()
    }

    /// Makes a function that says whether each worker turns. A worker turns once a second,
    /// and stands still if none of its turns is seen for 3 s.
    pub fn turns(&self) -> impl FnMut() -> bool + Send + use<> {
        let begun = Instant::now();
        let workers = self.workers.iter();
        let mut turns: Vec<_> = workers
            .map(|one| (Arc::clone(&one.turns), 0, begun))
            .collect();
        move || {
            let now = Instant::now();
            // Each one's count is brought up to date, also behind one that stands still.
            turns.iter_mut().fold(true, |all, (count, before, seen)| {
                let turned = count.load(Ordering::Relaxed);
                if std::mem::replace(before, turned) != turned {
                    *seen = now;
                }
                all & (now < *seen + STANDS_STILL)
            })
        }
    }

    /// Serves on one thread per worker until `shutdown` ends it. Resolves when
    /// all workers have ended, with the number of connections that were cut off.
    ///
    /// # Errors
    /// [`Error::Worker`] if a thread or its runtime can't be made, or a worker
    /// panicked. The other workers are ended then.
    pub async fn run(self, shutdown: Shutdown) -> Result<usize, Error> {
        // Ends with this future.
        let mut background = JoinSet::new();
        background.spawn(self.background.run(self.upstreams));
        let mut ends = Vec::with_capacity(self.workers.len());
        for (number, worker) in self.workers.into_iter().enumerate() {
            match start(number, worker, shutdown.clone()) {
                Ok(end) => ends.push(end),
                Err(source) => {
                    shutdown.end();
                    return Err(Error::Worker(source));
                }
            }
        }
        let mut first = Ok(0);
        for end in ends {
            let ended = end
                .await
                .unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            if ended.is_err() {
                shutdown.end();
            }
            first = first.and_then(|cut| ended.map(|more| cut + more));
        }
        first.map_err(Error::Worker)
    }
}

/// Makes the parts of all workers, each of those that it uses, and what runs beside the
/// workers. Redirects to HTTPS name `https_port`.
fn assemble(settings: Settings, parts: Parts, https_port: u16) -> (Arc<Common>, Background) {
    let (limits, metrics) = (settings.limits, parts.metrics);
    let (hook, budget) = match parts.hook {
        Some((hook, clients)) => (Some(hook), clients.budget),
        None => (None, Arc::new(Budget::new(&limits))),
    };
    let hosts = Arc::new(Hosts {
        lookup: parts.lookup,
        budget,
        metrics: Arc::clone(&metrics),
        lookup_limit: limits.handshake,
        log_limits: Arc::default(),
    });
    let defaults = Arc::new(settings.defaults);
    let chooser = hook.map(|hook| {
        Arc::new(Chooser {
            hook,
            hosts: Arc::clone(&hosts),
            defaults: Arc::clone(&defaults),
        })
    });
    let answers = parts.challenges;
    let answers = answers.map(|challenges| Arc::new(Answers::new(challenges, Arc::clone(&hosts))));
    let (servers, background) = Servers::new(Arc::clone(&metrics), settings.name_servers);
    let open = metrics.upstream().connections.clone();
    let upstreams = Arc::new(Upstreams {
        servers,
        descriptors: Descriptors::new(settings.upstreams, open),
        sockets: Sockets::new(),
        tls: TlsClients::new(parts.load_roots),
        programs: Programs::new(cgi::AT_ONCE),
        collecting: Collecting::new(),
        loop_id: parts.loop_id.0,
        guard: Arc::clone(parts.responder.guard()),
        hosts: Arc::clone(&hosts),
        host_look: limits.host_look,
    });
    let service = Arc::new(Service {
        routing: Arc::new(Routing {
            hosts: Arc::clone(&hosts),
            chooser: chooser.clone(),
        }),
        responder: parts.responder,
        answers: answers.clone(),
        trusted: settings.trusted,
        limits,
        metrics: Arc::clone(&metrics),
        access_log: parts.access_log,
        bodies: Bodies::new(settings.bodies, Arc::clone(&metrics)),
        https_port,
        plain: settings.plain,
        numbers: Numbers::default(),
    });
    let handshakes = Handshakes {
        hosts,
        chooser,
        answers,
        defaults,
        clock: parts.clock,
        limit: limits.handshake,
    };
    let common = Common {
        handshakes,
        service,
        upstreams,
        proxies: settings.proxies,
        limits,
        metrics,
        on_worker: parts.on_worker,
    };
    (Arc::new(common), background)
}

/// Gives each worker its sockets of each address.
fn deal(listening: Vec<Listening>, tls: bool, workers: &mut [Worker]) {
    for one in listening {
        for (number, socket) in one.sockets.into_iter().enumerate() {
            workers[number % workers.len()].sockets.push(Socket {
                socket,
                configured: one.configured,
                tls,
            });
        }
    }
}

fn start(
    number: usize,
    worker: Worker,
    shutdown: Shutdown,
) -> io::Result<oneshot::Receiver<io::Result<usize>>> {
    let runtime = Worker::runtime()?;
    let (ended, end) = oneshot::channel();
    thread::Builder::new()
        .name(format!("worker-{number}"))
        .spawn(move || {
            let result = runtime.block_on(worker.run(shutdown));
            // A file read that hangs in the kernel must not delay the exit.
            runtime.shutdown_background();
            let _ = ended.send(result);
        })?;
    Ok(end)
}

/// Time without a turn of a worker after which it stands still.
const STANDS_STILL: Duration = Duration::from_secs(3);
/// Port of a server that listens for plain HTTP alone.
const HTTPS: u16 = 443;
