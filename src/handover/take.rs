//! The new process's side of a hand-over: what it gets before it reads its configuration.

use std::env;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, bail};
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use rustix::stdio::{dup2_stdin, stdin};
use sekisho_server::Inherited;
use zeroize::Zeroizing;

use super::channel::{Link, MAX_TAIL, Received};
use super::launch::HANDOVER;
use super::message::{Complete, Message, ProcessState};
use crate::process;
use crate::terminal::failure::{self, Result};

/// Sockets of a name server, UDP and TCP, with their address as it was configured.
pub(crate) type ZoneSocket = (SocketAddr, [OwnedFd; 2]);

/// What the process before gave over.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) listeners: Inherited,
    /// Socket of the admin listener, with its address as it was configured.
    pub(crate) admin: Option<(String, OwnedFd)>,
    pub(crate) zones: Vec<ZoneSocket>,
    pub(crate) disk_cache: Option<OwnedFd>,
    pub(crate) ticket_keys: Option<Zeroizing<Vec<u8>>>,
    /// Names that clients ask for most.
    pub(crate) hot_names: Vec<String>,
    /// Values of its configuration, a line each.
    pub(crate) config_lines: Vec<String>,
    pub(crate) older: Vec<(ProcessState, Link)>,
    /// Link to it; None if this process was not started by another one.
    pub(crate) predecessor: Option<Predecessor>,
}

/// Process that hands over.
#[derive(Debug)]
pub(crate) struct Predecessor {
    pub(crate) link: Link,
    pub(crate) complete: Complete,
}

impl Taken {
    /// Takes what the process before gives, if that has started this one; else the
    /// service manager's sockets, if there are any.
    ///
    /// # Errors
    /// If the other process ends before it has given everything.
    pub(crate) fn receive() -> Result<Self> {
        let is_link = || socket_type(stdin()).is_ok_and(|of| of == SocketType::SEQPACKET);
        if env::var_os(HANDOVER).is_none() || !is_link() {
            return Self::activated();
        }
        let link = stdin().try_clone_to_owned().context(LINK)?;
        // Programs that are started later must not hold the link open.
        dup2_stdin(File::open("/dev/null").context("/dev/null")?).context(LINK)?;
        Self::from(Link::of(link)).context(LINK)
    }

    fn activated() -> Result<Self> {
        let mut taken = Self::default();
        for socket in process::activated().context(ACTIVATED)? {
            let tcp = TcpListener::from(socket);
            let Ok(address) = tcp.local_addr() else {
                bail!(
                    "{ACTIVATED} is no TCP socket; a socket unit serves [listen] https and http alone"
                );
            };
            let added = taken.listeners.add(address, tcp.into());
            added.with_context(|| format!("{ACTIVATED}: {address}"))?;
        }
        Ok(taken)
    }

    fn from(link: Link) -> Result<Self> {
        let mut taken = Self::default();
        link.send(&Message::Hello, &[], &[])?;
        loop {
            let Some(received) = link.receive()? else {
                bail!("the process that hands over has ended");
            };
            if let Some(complete) = taken.add(received)? {
                taken.predecessor = Some(Predecessor { link, complete });
                return Ok(taken);
            }
        }
    }

    /// Adds what a message gives. Returns the last one's content.
    fn add(&mut self, received: Received) -> Result<Option<Complete>> {
        let mut descriptors = received.descriptors.into_iter();
        let mut next = || descriptors.next().context("a descriptor is missing");
        match received.message {
            Message::Listeners { addresses } => {
                for address in addresses {
                    let added = self.listeners.add(address, next()?);
                    added.with_context(|| format!("the socket of {address}"))?;
                }
            }
            Message::Admin { address } => self.admin = Some((address, next()?)),
            Message::Zone { address } => self.zones.push((address, [next()?, next()?])),
            Message::DiskCache => self.disk_cache = Some(next()?),
            Message::Older(state) => self.older.push((state, Link::of(next()?))),
            Message::TicketKeys => self.ticket_keys = Some(received.tail),
            Message::HotNames => self.hot_names.extend(lines(&received.tail)),
            Message::ConfigLines => self.config_lines.extend(lines(&received.tail)),
            Message::Complete(complete) => return Ok(Some(complete)),
            // A later version may give more.
            _ => {}
        }
        Ok(None)
    }

    /// Makes what tells the process before that this one can't serve. None if there is no
    /// such process.
    ///
    /// # Errors
    /// The system's, without descriptors.
    pub(crate) fn refusal(&self) -> Result<Option<Refusal>> {
        let duplicate = |one: &Predecessor| one.link.as_fd().try_clone_to_owned();
        let link = self.predecessor.as_ref().map(duplicate).transpose()?;
        Ok(link.map(|link| Refusal(Link::of(link))))
    }
}

/// Link to the process before, for the case that this one can't serve.
#[derive(Debug)]
pub(crate) struct Refusal(Link);

impl Refusal {
    /// Says why this process can't serve.
    pub(crate) fn send(self, error: &anyhow::Error) {
        let mut error = failure::text(error);
        error.truncate(error.floor_char_boundary(MAX_TAIL / 4));
        // It may have ended meanwhile.
        let _ = self.0.send(&Message::Failed { error }, &[], &[]);
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    lines.into_iter()
}

const LINK: &str = "the hand-over";
const ACTIVATED: &str = "a socket of the service manager (LISTEN_FDS)";
