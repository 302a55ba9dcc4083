//! The thread of the name server for the zone of challenges.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow};
use sekisho_dns::authority::Zone;
use sekisho_server::{Error, NameServer, Phase, Shutdown, ZoneSockets};
use tokio::runtime::Builder;

use super::bind_error;
use crate::config::Config;
use crate::handover::{Taken, ZoneSocket};
use crate::terminal::failure::Result;
use crate::wiring::open::Opened;

/// Takes the sockets that the process before gave for the configured addresses, and binds the
/// others. Keeps `copies` for a process that takes this one's place. None if no zone is served.
pub(super) fn build(
    config: &Config,
    opened: &Opened,
    taken: &mut Taken,
    copies: &mut Vec<ZoneSocket>,
) -> Result<Option<NameServer>> {
    let Some(serve) = config.acme.as_ref().and_then(|acme| acme.serve.as_ref()) else {
        return Ok(None);
    };
    let mut sockets = Vec::new();
    for &address in &serve.addresses {
        let given = taken.zones.iter().position(|(of, _)| *of == address);
        let bound = match given {
            Some(at) => ZoneSockets::inherit(taken.zones.swap_remove(at).1),
            None => {
                let bound = ZoneSockets::bind(address);
                let bound = bound.map_err(|source| Error::Bind { address, source });
                bound.map_err(bind_error::with_hint)?
            }
        };
        let copy = bound.duplicate().context("sockets for a hand-over")?;
        copies.push((address, copy));
        sockets.push(bound);
    }
    let zone = Zone::new(serve.zone.as_str(), serve.name_servers.clone());
    let zone = zone.map_err(|why| anyhow!("[acme.dns.\"{}\"]: {why}", serve.zone))?;
    let store = Arc::clone(&opened.store) as _;
    Ok(Some(NameServer::new(zone, sockets, store)))
}

/// Starts the thread of a name server: floods of questions must not delay changes. It takes no
/// more questions once another process does, or the server ends.
pub(super) fn start(server: NameServer, shutdown: Shutdown) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context(THREAD)?;
    let work = move || {
        let stopped = async move { shutdown.reached(Phase::Leaving).await };
        if let Err(error) = runtime.block_on(server.run(stopped)) {
            tracing::error!(%error, "no question about challenges is answered");
        }
    };
    let thread = thread::Builder::new().name("zone".into());
    thread.spawn(work).map(drop).context(THREAD)
}

const THREAD: &str = "the thread of [acme.dns] serve could not be started";
