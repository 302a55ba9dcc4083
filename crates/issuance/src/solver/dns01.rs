//! DNS-01 (RFC 8555, section 8.4): a TXT record below `_acme-challenge`.
//!
//! 1. [`Dns01::locate`] follows CNAMEs of `_acme-challenge` to where the record
//!    goes, and finds the zone by its SOA. It writes nothing.
//! 2. The caller stores the [`Presented`] that it gets: whoever finds it after a
//!    crash knows what to remove.
//! 3. [`Dns01::present`] writes the record and waits until all authoritative
//!    servers of the zone have it, or those that [`Check`] names. The CA may ask any
//!    of them.
//! 4. [`Dns01::clean_up`] removes the record; it may be repeated.
//!
//! Records are written by [`Writer`]: RFC 2136 with TSIG, a program, or a
//! webhook. Several values at one name are several records: those of a wildcard
//! and of its parent, or of two servers, do not disturb each other.

mod error;
mod exec;
mod locate;
mod propagation;
mod rfc2136;
mod tsig;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::HostPattern;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;

pub use error::{Error, Fault};
pub use exec::Exec;
pub(crate) use locate::end_of_cnames;
pub use propagation::Waiting;
pub use rfc2136::Rfc2136;
use sekisho_dns::{PORT, Resolver};
pub use tsig::TsigKey;
pub use webhook::Webhook;

/// Solver of DNS-01 with one way to write records.
#[derive(Debug)]
pub struct Dns01 {
    settings: Settings,
    /// Tells of waits that take long.
    waits: Waits,
}

/// Place where waits for records tell how far they are, each once per 10 s.
pub type Waits = watch::Sender<Option<Waiting>>;

/// How records are written and awaited.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Way to write records.
    pub writer: Writer,
    /// Resolvers for CNAMEs, zones and servers.
    pub resolver: Resolver,
    /// Port at which authoritative servers are asked: 53 outside tests.
    pub port: u16,
    /// Bound for locating a record, and for writing it.
    pub deadline: Duration,
    /// Bound for the wait until all servers that are asked have a record.
    pub propagation: Duration,
    /// Which servers are asked.
    pub check: Check,
    /// Time between two questions to a server that lacks it.
    pub interval: Duration,
}

/// Servers that are asked whether they have a record, before the CA is told to look.
#[derive(Clone, Debug, Default)]
pub enum Check {
    /// The authoritative servers of the zone, which the CA asks.
    #[default]
    Authoritative,
    /// These, where the others can't be reached.
    At(Vec<SocketAddr>),
    /// None: the CA is told when the time of [`Settings::propagation`] is over.
    Off,
}

/// Way to write records.
#[derive(Clone, Debug)]
pub enum Writer {
    /// Dynamic updates (RFC 2136).
    Rfc2136(Box<Rfc2136>),
    /// A program in the convention of lego's provider `exec`.
    Exec(Exec),
    /// A server in the convention of lego's provider `httpreq`.
    Webhook(Arc<Webhook>),
}

/// Record of a challenge: stored before it is written, so that it can be removed
/// after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Presented {
    /// Name of the record, at the end of all CNAMEs, with its last dot.
    pub fqdn: String,
    /// Zone that holds it, with its last dot.
    pub zone: String,
    /// Text of the record.
    pub value: String,
}

impl Settings {
    /// Asks the system's resolvers, and waits no longer than two minutes for
    /// propagation: most DNS hosts need less than one.
    #[must_use]
    pub fn new(writer: Writer) -> Self {
        Self {
            writer,
            resolver: Resolver::new(&[]),
            port: PORT,
            deadline: Duration::from_secs(60),
            propagation: Duration::from_secs(120),
            check: Check::Authoritative,
            interval: Duration::from_secs(2),
        }
    }
}

impl Dns01 {
    /// Makes a solver that tells of long waits here, where others tell of theirs.
    #[must_use]
    pub fn new(settings: Settings, waits: Waits) -> Self {
        Self { settings, waits }
    }

    /// Finds where the record of a challenge goes. `value` is the challenge's text.
    ///
    /// # Errors
    /// [`Fault::Name`] if there is no zone, or CNAMEs lead nowhere;
    /// [`Fault::Unreachable`] if no resolver answers in time.
    pub async fn locate(&self, name: &HostPattern, value: &str) -> Result<Presented, Error> {
        let found = locate::find(&self.settings.resolver, name);
        let found = timeout(self.settings.deadline, found).await;
        let found = found.unwrap_or_else(|_| Err(self.late("the resolvers")));
        let (fqdn, zone) = found.map_err(|fault| fault.at(name.as_str()))?;
        Ok(Presented {
            fqdn: fqdn.to_ascii(),
            zone: zone.to_ascii(),
            value: value.to_owned(),
        })
    }

    /// Writes a record and waits until all servers that are asked have it. A server that
    /// does not answer at all is not waited for beyond the bound if another one has the
    /// record.
    ///
    /// # Errors
    /// [`Error`]; the record may have been written nevertheless.
    pub async fn present(&self, presented: &Presented) -> Result<(), Error> {
        let done = async {
            self.write(Action::Present, presented).await?;
            propagation::wait(&self.settings, presented, &self.waits).await
        };
        done.await.map_err(|fault| fault.at(&presented.fqdn))
    }

    /// Removes a record; one that is not there is no error. Other records of the
    /// name stay.
    ///
    /// # Errors
    /// [`Error`]; the caller keeps `presented` and tries again.
    pub async fn clean_up(&self, presented: &Presented) -> Result<(), Error> {
        let done = self.write(Action::CleanUp, presented).await;
        done.map_err(|fault| fault.at(&presented.fqdn))
    }

    /// Returns the key of the configuration that a refusal is about.
    pub(crate) fn key(&self) -> &'static str {
        match &self.settings.writer {
            Writer::Rfc2136(_) => "tsig",
            Writer::Exec(_) => "exec",
            Writer::Webhook(_) => "webhook",
        }
    }

    async fn write(&self, action: Action, presented: &Presented) -> Result<(), Fault> {
        // Waiting for another call is no fault of the program.
        let _alone = match &self.settings.writer {
            Writer::Exec(exec) => Some(exec.alone().await),
            Writer::Rfc2136(_) | Writer::Webhook(_) => None,
        };
        let done = async {
            match &self.settings.writer {
                Writer::Rfc2136(rfc2136) => rfc2136.write(action, presented).await,
                Writer::Exec(exec) => exec.write(action, presented).await,
                Writer::Webhook(webhook) => webhook.write(action, presented).await,
            }
        };
        let done = timeout(self.settings.deadline, done).await;
        done.unwrap_or_else(|_| Err(self.late(&self.settings.writer.to_string())))
    }

    fn late(&self, who: &str) -> Fault {
        let seconds = self.settings.deadline.as_secs_f32();
        Fault::Unreachable(format!("{who}: not done within {seconds} s"))
    }
}

impl std::fmt::Display for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rfc2136(rfc2136) => rfc2136.fmt(f),
            Self::Exec(exec) => exec.fmt(f),
            Self::Webhook(webhook) => webhook.fmt(f),
        }
    }
}

/// Action of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Present,
    CleanUp,
}

impl Action {
    /// Returns lego's word.
    fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::CleanUp => "cleanup",
        }
    }
}
