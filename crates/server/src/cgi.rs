//! Runs CGI programs (RFC 3875) beside the workers.
//!
//! The process of a server with many hosts is large. Its programs are started without a copy
//! of its page table: see [`spawn`].

mod complaints;
mod group;
mod libc_fork;
mod program;
mod running;
mod spawn;

use std::ffi::OsString;
use std::hash::Hash;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sekisho_certs::Tenant;
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::limits::budget::Prefix;
pub(crate) use complaints::Complaints;
pub use libc_fork::starts_by_fork;
pub(crate) use program::Program;
pub use program::{Refused, Survey, survey};
use running::Watch;
pub(crate) use running::{Failure, Running};

/// Programs that run, of all workers.
#[derive(Debug)]
pub(crate) struct Programs {
    running: Gate<Tenant>,
    /// Half of a tenant's at most are those of one client network.
    of_client: Gate<(Tenant, Prefix)>,
    /// A start that hangs, as on a file system that hangs, keeps its thread.
    starting: Gate<Tenant>,
}

/// Program to start.
pub(crate) struct Job {
    pub(crate) program: Program,
    /// Names and values of its environment. It has nothing else.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) complaints: Complaints,
    /// Longest time from the start to the end.
    pub(crate) total: Duration,
}

/// Reasons why a program was not started.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    /// Too many requests wait already.
    #[error("too many requests wait for a program to end")]
    Full,
    /// The tenant runs as many programs as it may, or starts as many.
    #[error("the tenant runs as many programs as it may")]
    TenantBusy,
    /// All tenants together run as many programs as they may, or the start took too long.
    #[error("no program could start in time")]
    Late,
    /// The system did not start it.
    #[error("{0:?} can't be started: {1}")]
    System(PathBuf, io::Error),
}

impl Programs {
    /// Allows so many programs.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            running: gate(most, |_| OF_TENANT),
            // Only the share of a client counts: `running` bounds them all.
            of_client: gate(MAX_WAITING, |_| OF_CLIENT),
            starting: gate(STARTS_AT_ONCE, |_| STARTS_OF_TENANT),
        }
    }

    /// Looks for a program of a tenant, on a thread for blocking calls, until `until`.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        until: Instant,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let permit = enter(&self.starting, tenant, STARTS_OF_TENANT, until).await?;
        let looked = spawn_blocking(move || {
            let _permit = permit;
            look()
        });
        match timeout_at(until, looked).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) | Err(_) => Err(StartError::Late),
        }
    }

    /// Starts a program for a client of a tenant, until `until`. If the caller stops waiting, a
    /// program that was started meanwhile is ended.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) async fn start(
        &self,
        job: Job,
        (tenant, client): (&Tenant, Prefix),
        until: Instant,
    ) -> Result<Running, StartError> {
        let of_client = (tenant.clone(), client);
        let of_client = enter(&self.of_client, &of_client, OF_CLIENT, until).await?;
        let permit = enter(&self.running, tenant, OF_TENANT, until).await?;
        let starting = enter(&self.starting, tenant, STARTS_OF_TENANT, until).await?;
        let (started, running) = oneshot::channel();
        // A task, since a program's end takes longer than its request.
        tokio::spawn(async move {
            let _permits = (permit, of_client);
            let file = job.program.file().to_owned();
            match spawn(job, starting).await {
                Ok((running, watch)) => {
                    // If nobody waits, the program ends, since its output is dropped.
                    drop(started.send(Ok(running)));
                    watch.run().await;
                }
                Err(error) => drop(started.send(Err(StartError::System(file, error)))),
            }
        });
        match timeout_at(until, running).await {
            Ok(Ok(started)) => started,
            // The runtime ends, or the time is over.
            Ok(Err(_)) | Err(_) => Err(StartError::Late),
        }
    }
}

fn gate<K: Clone + Eq + Hash>(permits: usize, of_key: fn(&K) -> usize) -> Gate<K> {
    Gate::new(permits, Sharing::AtMost(of_key), MAX_WAITING)
}

/// Waits for a permit of a key, which may have `most` of them.
async fn enter<K: Clone + Eq + Hash>(
    gate: &Gate<K>,
    key: &K,
    most: usize,
    until: Instant,
) -> Result<Permit<K>, StartError> {
    let entered = gate.enter_until(key.clone(), until).await;
    entered.map_err(|denied| match denied {
        Denied::Full => StartError::Full,
        Denied::Late if gate.used_by(key) >= most => StartError::TenantBusy,
        Denied::Late => StartError::Late,
    })
}

/// Starts a program on a thread for blocking calls.
async fn spawn(job: Job, starting: Permit<Tenant>) -> io::Result<(Running, Watch)> {
    // Without a handler, a SIGCHLD that is ignored, as this process may have been started,
    // would leave no zombies: the group's id could be reused before its last signal.
    let children = signal(SignalKind::child())?;
    let spawned = spawn_blocking(move || {
        let _starting = starting;
        spawn::spawn(job, children)
    });
    spawned
        .await
        .unwrap_or_else(|ended| Err(io::Error::other(ended)))
}

/// Programs that run at once.
pub(crate) const AT_ONCE: usize = 64;
/// Programs of one tenant. Hosts without a tenant count as one.
const OF_TENANT: usize = 16;
/// Programs that are being started, of all workers. Each keeps a thread for some 1 ms.
pub(crate) const STARTS_AT_ONCE: usize = 4;
/// Programs that are being started of one tenant.
const STARTS_OF_TENANT: usize = 2;
/// Programs of one tenant for one client network.
const OF_CLIENT: usize = 8;
/// Requests that wait for a program's end.
const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests;
