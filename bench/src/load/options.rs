//! The command line of `load`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::client::Part;
use super::names::{Names, Order};
use crate::tls::{Group, Offer, Trust, Version};

/// What to send, to whom, and for how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The server's address
    #[arg(long, value_name = "ADDR")]
    pub target: SocketAddr,

    /// File with one host name per line
    #[arg(long, value_name = "FILE", required_unless_present = "name_pattern")]
    pub names: Option<PathBuf>,

    /// Host names by number, such as 'h{n}.example.test'
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "count",
        conflicts_with = "names"
    )]
    pub name_pattern: Option<String>,

    /// How many hosts the pattern stands for: numbers 0 to N-1
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,

    /// Order of the hosts: walk, random, zipf, zipf:S, or half:N for a walk in which every
    /// second host is one of the first N
    #[arg(long, default_value = "walk")]
    pub order: Order,

    /// Number of the host at which a walk begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub start: usize,

    /// Seed of the random orders
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Full handshakes only, or resumed ones wherever the server gave a ticket
    #[arg(long, value_enum, default_value = "full")]
    pub resume: Resume,

    /// Connections open at the same time
    #[arg(long, value_name = "C", default_value_t = 16)]
    pub concurrency: usize,

    /// Begin this many connections per second, however long they take, as far as the
    /// concurrency allows; times count from when each was due
    #[arg(long, value_name = "N", conflicts_with_all = ["keepalive", "idle"])]
    pub rate: Option<NonZeroU32>,

    /// Add to the JSON how many operations took how long, in buckets of three digits
    #[arg(long, requires_all = ["rate", "json"])]
    pub counts: bool,

    /// Path of the request on each connection, or none
    #[arg(long, value_name = "PATH|none", default_value = "/")]
    pub request: String,

    /// Stop after this many handshakes
    #[arg(long, value_name = "N")]
    pub handshakes: Option<u64>,

    /// Stop after this many seconds; with --idle, hold the connections for that long
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,

    /// Handshakes (or requests, with --keepalive) made before measuring starts
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,

    /// TLS version; the cipher suite is AES-128-GCM with SHA-256
    #[arg(long, value_enum, default_value = "1.3")]
    pub tls: Version,

    /// The only key exchange group that is offered
    #[arg(long, value_enum, default_value = "x25519")]
    pub group: Group,

    /// Verify chain and name with the certificates in this file
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "no_verify",
        conflicts_with = "no_verify"
    )]
    pub ca: Option<PathBuf>,

    /// Verify nothing, so that the client takes little CPU
    #[arg(long)]
    pub no_verify: bool,

    /// Many requests on each of C connections
    #[arg(long, value_name = "REQUESTS", conflicts_with = "idle")]
    pub keepalive: Option<u64>,

    /// Speak HTTP/2, with this many requests at a time on each connection; with --idle, one
    #[arg(long, value_name = "STREAMS", conflicts_with_all = ["rate", "hellos"])]
    pub http2: Option<usize>,

    /// Upgrade each connection to a WebSocket; a request is then 64 bytes and their echo
    #[arg(long, requires = "keepalive", conflicts_with = "http2")]
    pub websocket: bool,

    /// Ask for the next host in each request; the first certificate must cover all
    #[arg(long, requires = "keepalive", conflicts_with_all = ["http2", "websocket"])]
    pub any_host: bool,

    /// Count the time of a request to the first byte of its response, not to the last
    #[arg(long, requires = "keepalive", conflicts_with_all = ["http2", "websocket"])]
    pub first_byte: bool,

    /// Seconds that a connection rests before each request
    #[arg(long, value_name = "S", requires = "keepalive", default_value_t = 0.0)]
    pub pause: f64,

    /// Field to send with each request, such as 'Name: value'; HTTP/1.1 only
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["http2", "websocket"])]
    pub field: Option<String>,

    /// Open C connections and hold them without traffic
    #[arg(long)]
    pub idle: bool,

    /// Open C connections, send a ClientHello or its first half on each, and hold them
    #[arg(long, value_enum, requires = "gate", conflicts_with_all = ["keepalive", "idle"])]
    pub hellos: Option<Part>,

    /// Seconds that a connection (or a request, with --keepalive) may take
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub deadline: f64,

    /// Spread connections over this many source addresses in 127.0.0.0/8
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sources: u32,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Print "ready" after the warm-up and wait for a line on standard input; wait for
    /// another one before the connections are closed
    #[arg(long)]
    pub gate: bool,
}

impl Options {
    pub fn names(&self) -> Result<Names> {
        match (&self.names, &self.name_pattern) {
            (Some(file), _) => Names::from_file(file),
            (None, Some(pattern)) => Names::from_pattern(pattern, self.count.unwrap_or(0)),
            (None, None) => bail!("--names or --name-pattern is needed"),
        }
    }

    pub fn offer(&self, hosts: usize) -> Offer {
        Offer {
            version: self.tls,
            group: self.group,
            trust: match &self.ca {
                Some(file) => Trust::Authority(file.clone()),
                None => Trust::Anyone,
            },
            resume: (self.resume == Resume::Resumed).then_some(hosts),
        }
    }

    /// Refuses options without a bound: every run must end.
    pub fn check(&self) -> Result<()> {
        let bounded = self.handshakes.is_some() || self.seconds.is_some();
        if self.http2 == Some(0) {
            bail!("--http2 must be at least 1");
        }
        if self.http2.is_some() && self.keepalive.is_none() && !self.idle {
            bail!("--http2 needs --keepalive or --idle");
        }
        if self.concurrency == 0 {
            bail!("--concurrency must be at least 1");
        }
        let holds = self.gate && (self.idle || self.hellos.is_some());
        if !bounded && self.keepalive.is_none() && !holds {
            bail!("--handshakes or --seconds is needed, so that the run ends");
        }
        for seconds in [Some(self.deadline), Some(self.pause), self.seconds]
            .into_iter()
            .flatten()
        {
            if Duration::try_from_secs_f64(seconds).is_err() {
                bail!("{seconds} is no number of seconds");
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Resume {
    Full,
    Resumed,
}

/// Examples below `--help`.
pub const EXAMPLES: &str = "\
Examples:
  10,000 full handshakes with one request each, over 100 hosts:
    sekisho-bench load --target 127.0.0.1:8443 --name-pattern 'h{n}.example.test' --count 100 \\
        --handshakes 10000 --no-verify
  Hosts by popularity for 30 seconds, chain and name verified, result as JSON:
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --order zipf:0.9 \\
        --seconds 30 --ca ca.crt --json
  Resumed handshakes without a request:
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --resume resumed --warmup 500 \\
        --request none --handshakes 10000 --no-verify
  1,000 connections per second for 10 seconds, whatever the server does:
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --rate 1000 --seconds 10 \\
        --concurrency 500 --deadline 1 --no-verify
  100 connections with 1,000 requests each, then 2,000 that only stay open:
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --concurrency 100 \\
        --keepalive 1000 --no-verify
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --concurrency 2000 \\
        --idle --seconds 60 --no-verify
  One HTTP/2 connection with 100 streams, and 1,000 WebSockets:
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --concurrency 1 --http2 100 \\
        --keepalive 10000 --no-verify
    sekisho-bench load --target 127.0.0.1:8443 --names names.txt --concurrency 1000 --websocket \\
        --request /ws --keepalive 100 --no-verify
";
