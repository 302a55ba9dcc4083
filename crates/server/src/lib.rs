//! Serves connections, from the accepted socket to the answered request.
//!
//! Bytes flow through the modules in this order: [`Settings`] say where, `listen`
//! binds, `worker` runs, `accept` accepts, `hello` reads the ClientHello, [`hook`] may
//! choose what the client gets, `ask` looks a name up, `handshake` finishes with what
//! `virtual_host` made of the record, `tls` encrypts, `frames` counts the frames of
//! HTTP/2, `http` speaks, `timeouts` ends what makes no progress, `route` finds who
//! answers a request, `respond` decides by its [`site`], and `files`, `upstream` or a
//! redirect answers it. CAs that validate a challenge are answered by `challenge`, from
//! `handshake` and `http`.
//!
//! # The way of a request
//!
//! The files, and those of crate `certs` that the lookup calls:
//!
//! ```text
//!  crates/server/src                        crates/certs/src
//!  ─────────────────                        ────────────────
//!  listen.rs      sockets, bound once
//!  worker.rs      one thread each
//!  accept.rs      a permit, a socket; at a worker's limit, connections.rs closes the longest
//!    │            idle of the largest client network (connections/by_prefix.rs)
//!    │            (port 80: http/plain.rs); proxy_protocol.rs reads the header that
//!    │            a peer in `[listen] proxy` begins with
//!    ▼
//!  handshake.rs   one deadline, moved where step 4 of the lookup takes long; without a
//!    │              server name, the default of the listening address
//!    ├─ hello.rs  first byte, ClientHello
//!    ├─ handshake/challenge.rs  ALPN exactly acme-tls/1: the challenge certificate,
//!    │    │                       and the end of the connection
//!    │    └ challenge.rs ───► challenge.rs        memory, else the catalog, with a
//!    │                                                permit of the client's prefix
//!    ├─ handshake/hooked.rs  only with a hook: hook.rs asks it what the client gets
//!    │    │                    (hook/resolve.rs), before anything is looked up
//!    ├─ ask.rs ─────► lookup.rs                 the name, to what serves it
//!    │    │             ├─ cache.rs                 1 memory: the name, a note, a wildcard
//!    │    │             └─ lookup/singleflight.rs   2 join what is in flight for this name
//!    │    └ budget.rs                                 else: a permit of the client's prefix;
//!    │                                                step 4 counts for the tenant
//!    │                  lookup/read.rs              3 one read, a task of its own, for all callers:
//!    │                    │                           scripts and client certificates too
//!    │                    ├─ store.rs                 the pattern or the wildcard above, one call
//!    │                    │    └► crates/stores/src/tiers.rs
//!    │                    │         redis_cache.rs     if it is as far as this server has seen
//!    │                    │         the store          sqlite, postgres, redis, http, files
//!    │                    │         seal/sealer.rs     opens the private keys
//!    │                    │         disk_cache.rs      only if the store could not answer
//!    │                    ├─ loaded.rs              keys parsed, matched and shared
//!    │                    ├─ server: virtual_host.rs  ServerConfig and site, once per read;
//!    │                    │                           virtual_host/bases.rs shares what
//!    │                    │                           hosts of one TLS policy have in common;
//!    │                    │                           site/document.rs reads a site's keys,
//!    │                    │                           site/check.rs turns them into
//!    │                    │                           site/rule.rs and site/upstream.rs
//!    │                    └─ log.rs                   again if a change overtook it; an absence is
//!    │                                                noted here
//!    │                  lookup/obtaining.rs         4 issuance, another task, for visitors alone;
//!    │                    │                           then 3 again
//!    │                    └─ obtain.rs                if `[acme]` is there
//!    │                         └► crates/issuance
//!    ▼
//!    └─ rustls with that ServerConfig; tickets.rs; refuse.rs sends alerts;
//!       signing.rs gives permits to sign with long RSA keys, by client prefix
//!    │
//!  tls.rs         the encrypted stream; frames.rs counts the frames of HTTP/2,
//!    │              bodies.rs the bytes that came and nobody took, over all connections;
//!    │              tls/lines.rs finds a bare LF in heads of HTTP/1.1,
//!    │              tls/corked.rs joins what HTTP/2 writes in one poll,
//!    │              tls/vacate.rs gives the memory of rustls's read buffer back
//!  http/connection.rs  HTTP/1.1 until it is idle, then parked without hyper until bytes
//!    │              come; or HTTP/2. http/drive.rs has the timer of its limits. Each is a stage
//!    │              (stage.rs), as the handshake is: a future with memory of its own
//!  http.rs        answers a request; timeouts.rs ends what makes no progress;
//!    │              challenge.rs answers tokens of CAs, here and on port 80;
//!    │              client.rs finds the client behind trusted proxies;
//!    │              access_log.rs has an entry until the answer has ended
//!  route.rs       the host of each request: authority.rs, ask.rs again, or 421;
//!    │              route/hooked.rs keeps what the hook chose, and asks it again
//!    │
//!  respond.rs     the rule (site.rs) of the path, which site/path.rs cleans;
//!    │              respond/admission.rs and rates.rs let the request pass; then it is
//!    │              answered; files/page.rs has error pages; respond/fields.rs changes
//!    │              the answer's fields
//!    │
//!    ├─ files.rs      files below a root; site/guard.rs says which roots, site/open.rs
//!    │                opens them; files/reads.rs shares reads out, by tenant first;
//!    │                files/tried.rs takes the first of several
//!    ├─ upstream.rs   other servers: see "The way to an upstream"
//!    ├─ site/redirect.rs   elsewhere
//!    └─ a status
//! ```
#![deny(unsafe_code)]

mod connection;
mod error;
mod files;
mod http;
mod limits;
mod lookup;
mod observe;
mod run;
pub mod site;
mod tls;
mod upstream;

/// Entry points for the fuzz targets; cargo-fuzz sets `cfg(fuzzing)`.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::connection::proxy_protocol::proxy_header;
    pub use crate::site::site_path;
    pub use crate::tls::hello::client_hello;
}

pub use error::Error;
pub use files::{MAX_OPEN_FILES, OpenFiles};
pub use http::respond::Responder;
pub use limits::network;
pub use limits::settings::{CertificateWaits, Defaults, Limits, Settings};
pub use lookup::virtual_host::{Made, Publisher, VirtualHost};
pub use lookup::{hook, private, tickets};
pub use observe::{access_log, line_writer, metrics};
pub use run::server::{Addresses, Parts, Server};
pub use run::shutdown::{Phase, Shutdown};
pub use run::{admin, shutdown};
pub use site::body::Body;
pub use site::value;
pub use upstream::{LoadRoots, LoopId, unused_connections};
