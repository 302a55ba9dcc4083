//! Serves connections, from the accepted socket to the answered request.
//!
//! Twelve rooms, each of which imports only those below or beside it in this picture:
//!
//! ```text
//!  run          starts the threads; the operator's listener
//!  http         requests and their answers
//!  upstream     other servers
//!  cgi          programs of the operator
//!  connection   from the accepted socket to the end of the handshake
//!  lookup │ files   from a name to what serves it │ files below a root
//!  coding       what clients take of codings; encoders, and their bounds
//!  site   │ tls     how requests to a host are answered │ the stream, with TLS or without
//!  limits       what a client, a connection or a request may take
//!  observe      the access log and the metrics
//! ```
//!
//! `zone`, the name server of challenges' zones, imports none of the others, and none
//! imports it: it runs on a thread of its own.
//!
//! # The way of a request
//!
//! The files, and those of crate `certs` that the lookup calls:
//!
//! ```text
//!  crates/server/src                        crates/certs/src
//!  ─────────────────                        ────────────────
//!  run/listen.rs      sockets, bound once
//!  run/worker.rs      one thread each
//!  connection/accept.rs   a permit, a socket; at a worker's limit, connection/connections.rs
//!    │            closes the longest idle of the largest client network
//!    │            (connection/connections/by_prefix.rs; port 80 goes on at
//!    │            tls.rs);
//!    │            connection/proxy_protocol.rs reads the header that a peer in
//!    │            `[listen] proxy` begins with
//!    ▼
//!  connection/handshake.rs   one deadline, moved where step 4 of the lookup takes long;
//!    │              without a server name, the default of the listening address
//!    ├─ tls/hello.rs  first byte, ClientHello
//!    ├─ connection/handshake/challenge.rs  ALPN exactly acme-tls/1: the challenge
//!    │    │                       certificate, and the end of the connection
//!    │    └ lookup/challenge.rs ► challenge.rs        memory, else the catalog, with a
//!    │                                                permit of the client's prefix
//!    ├─ connection/handshake/hooked.rs  only with a hook: lookup/hook.rs asks it what the
//!    │    │                    client gets (lookup/hook/resolve.rs), before anything is
//!    │    │                    looked up
//!    ├─ lookup/ask.rs ► lookup.rs                 the name, to what serves it
//!    │    │             ├─ cache.rs                 1 memory: the name, a note, a wildcard
//!    │    │             └─ lookup/singleflight.rs   2 join what is in flight for this name
//!    │    └ limits/budget.rs                          else: a permit of the client's prefix;
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
//!    │                    ├─ server: lookup/virtual_host.rs  ServerConfig and site, once per
//!    │                    │                           read; lookup/virtual_host/bases.rs shares
//!    │                    │                           what hosts of one TLS policy have in
//!    │                    │                           common; site/document.rs reads a site's
//!    │                    │                           keys, site/check.rs turns them into
//!    │                    │                           site/rules.rs and site/upstream.rs
//!    │                    └─ log.rs                   again if a change overtook it; an absence is
//!    │                                                noted here
//!    │                  lookup/obtaining.rs         4 issuance, another task, for visitors alone;
//!    │                    │                           then 3 again
//!    │                    └─ obtain.rs                if `[acme]` is there
//!    │                         └► crates/issuance
//!    ▼
//!    └─ rustls with that ServerConfig; lookup/tickets.rs; tls/refuse.rs sends alerts;
//!       tls/signing.rs gives permits to sign with long RSA keys, by client prefix
//!    │
//!  tls.rs         the stream; tls/session.rs is TLS or, over plain HTTP, nothing;
//!    │              tls/frames.rs counts the frames of HTTP/2,
//!    │              limits/bodies.rs the bytes that came and nobody took, over all
//!    │              connections; tls/lines.rs finds a bare LF in heads of HTTP/1.1,
//!    │              tls/corked.rs joins what HTTP/2 writes in one poll,
//!    │              tls/release.rs gives the memory of rustls's read buffer back
//!  http/connection.rs  HTTP/1.1 until it is idle, then parked without hyper until bytes
//!    │              come; or HTTP/2. http/drive.rs has the timer of its limits. Each is a stage
//!    │              (connection/stage.rs), as the handshake is: a future with memory of its own
//!  http.rs        answers a request; limits/timeouts.rs ends what makes no progress;
//!    │              lookup/challenge.rs answers tokens of CAs, here and on port 80;
//!    │              connection/client.rs finds the client behind trusted proxies;
//!    │              observe/access_log.rs has an entry until the answer has ended
//!  http/route.rs  the host of each request: lookup/authority.rs, lookup/ask.rs again, or 421;
//!    │              http/route/hooked.rs keeps what the hook chose, and asks it again;
//!    │              http/route/plain.rs is the way of plain HTTP, whose requests
//!    │              http/plain.rs lets pass or redirects; http/alias.rs follows `as` of its
//!    │              site to the host that answers
//!    │
//!  http/respond.rs  the rule (site.rs) of the path, which site/path.rs cleans;
//!    │              http/respond/admission.rs, limits/in_flight.rs and limits/rates.rs let the
//!    │              request pass, and http/respond/passwords.rs its user; then it is answered;
//!    │              files/page.rs has error pages; http/respond/fields.rs changes the
//!    │              answer's fields; http/respond/compress.rs compresses it, by encoders of
//!    │              coding/gates.rs
//!    │
//!    ├─ files.rs      files below a root; site/guard.rs says which roots, site/open.rs
//!    │                opens them; files/reads.rs shares reads out;
//!    │                files/coded.rs takes a precompressed copy, and keeps what was compressed;
//!    │                files/scripts.rs takes the first of several, and finds
//!    │                those that a FastCGI server runs
//!    ├─ upstream.rs   other servers and FastCGI: see "The way to an upstream";
//!    │                upstream/program.rs has cgi.rs run a CGI program
//!    ├─ site/redirect.rs   elsewhere
//!    └─ a status
//! ```
#![deny(unsafe_code)]

mod cgi;
mod coding;
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
mod zone;

/// Entry points for the fuzz targets; cargo-fuzz sets `cfg(fuzzing)`.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::coding::testing::{accept_encoding, coded_body};
    pub use crate::connection::proxy_protocol::proxy_header;
    pub use crate::site::{site_path, verify_password};
    pub use crate::tls::hello::client_hello;
    pub use crate::upstream::fastcgi_answer;
}

pub use cgi::{Refused as ProgramRefused, Survey, starts_by_fork, survey};
pub use error::Error;
pub use files::{MAX_OPEN_FILES, OpenFiles};
pub use http::respond::Responder;
pub use limits::network;
pub use limits::settings::{CertificateWaits, Defaults, Limits, Settings};
pub use lookup::virtual_host::{Made, Publisher, VirtualHost};
pub use lookup::{hook, secret_file, tickets};
pub use observe::{access_log, line_writer, metrics};
pub use run::listen::Inherited;
pub use run::server::{Addresses, Parts, Server};
pub use run::shutdown::{Phase, Shutdown};
pub use run::{admin, shutdown};
pub use site::body::Body;
pub use site::value;
pub use upstream::{LoadRoots, LoopId, unused_connections};
pub use zone::{NameServer, ZoneSockets};
