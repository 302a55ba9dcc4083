//! Runs CGI programs (RFC 3875) beside the workers.
//!
//! The process of a server with many hosts is large. Its programs are started without a copy
//! of its page table: see [`spawn`].

mod group;
mod libc_fork;
mod program;
mod running;
mod spawn;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::Tenant;
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::limits::budget::Prefix;
use crate::limits::log_limiter::LogLimits;
pub use libc_fork::starts_by_fork;
pub(crate) use program::Program;
pub use program::{Refused, Survey, survey};
pub(crate) use running::{Failure, Input, Output, Running};
use spawn::Spawned;
use watch::Watch;

/// Programs that run, of all workers. Clones share the limits.
#[derive(Clone, Debug)]
pub(crate) struct Programs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most_of_tenant: usize,
    running: Gate<Share>,
    /// Half of a tenant's at most are those of one client network.
    of_client: Gate<(Tenant, Prefix)>,
    /// A start that hangs, as on a file system that hangs, keeps its thread.
    starting: Gate<Tenant>,
    log_limits: LogLimits,
}

/// Tenant, with the programs that it may run at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Share {
    tenant: Tenant,
    most: usize,
}

/// Limits on the programs that run at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Of all tenants.
    pub(crate) in_total: usize,
    /// Of each tenant. Hosts without a tenant count as one.
    pub(crate) of_tenant: usize,
}

/// Longest waits for a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longest time until the head of the answer, counted anew while the request's body moves.
    pub(crate) first_byte: Duration,
    /// Longest time without a byte of a body.
    pub(crate) idle: Duration,
    /// Longest time from the start to the end.
    pub(crate) total: Duration,
}

/// Names and values of a program's environment. It has nothing else.
pub(crate) type Environment = Vec<(OsString, OsString)>;

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

impl Default for Most {
    fn default() -> Self {
        Self {
            in_total: 64,
            of_tenant: 16,
        }
    }
}

impl Programs {
    /// Allows so many programs.
    pub(crate) fn new(most: Most) -> Self {
        let share = Sharing::AtMost(|share: &Share| share.most);
        Self(Arc::new(Shared {
            most_of_tenant: most.of_tenant,
            running: Gate::new(most.in_total, share, MAX_WAITING),
            // Only the share of a client counts: `running` bounds them all.
            of_client: Gate::new(MAX_WAITING, Sharing::AtMost(|_| OF_CLIENT), MAX_WAITING),
            starting: Gate::new(
                STARTS_AT_ONCE,
                Sharing::AtMost(|_| STARTS_OF_TENANT),
                MAX_WAITING,
            ),
            log_limits: LogLimits::default(),
        }))
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
        let permit = self.starting(tenant, until).await?;
        let looked = spawn_blocking(move || {
            let found = look();
            drop(permit);
            found
        });
        match timeout_at(until, looked).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) | Err(_) => Err(StartError::Late),
        }
    }

    /// Waits for a permit to block a thread.
    async fn starting(
        &self,
        tenant: &Tenant,
        until: Instant,
    ) -> Result<Permit<Tenant>, StartError> {
        let entered = self.0.starting.enter_until(tenant.clone(), until).await;
        entered.map_err(|denied| {
            let used = self.0.starting.used_by(tenant);
            StartError::of(denied, used >= STARTS_OF_TENANT)
        })
    }

    /// Starts a program for a host of a tenant, until `until`. If the caller stops waiting, a
    /// program that was started meanwhile is ended.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) async fn start(
        &self,
        program: Program,
        environment: Environment,
        (host, tenant, client): (&str, &Tenant, Prefix),
        limits: Limits,
        until: Instant,
    ) -> Result<Running, StartError> {
        let entered = self
            .0
            .of_client
            .enter_until((tenant.clone(), client), until)
            .await;
        let of_client = entered.map_err(|denied| StartError::of(denied, true))?;
        let share = Share {
            tenant: tenant.clone(),
            most: self.0.most_of_tenant,
        };
        let entered = self.0.running.enter_until(share.clone(), until).await;
        let permit = entered.map_err(|denied| {
            let used = self.0.running.used_by(&share);
            StartError::of(denied, used >= share.most)
        })?;
        let starting = self.starting(tenant, until).await?;
        let job = Job {
            program,
            environment,
            limits,
            host: host.into(),
            tenant: tenant.clone(),
            _permits: (permit, of_client),
            starting,
            shared: Arc::clone(&self.0),
        };
        let (started, running) = oneshot::channel();
        // A task, since a program's end takes longer than its request.
        tokio::spawn(job.run(started));
        match timeout_at(until, running).await {
            Ok(Ok(started)) => started,
            // The runtime ends, or the time is over.
            Ok(Err(_)) | Err(_) => Err(StartError::Late),
        }
    }
}

impl StartError {
    fn of(denied: Denied, tenant_is_busy: bool) -> Self {
        match denied {
            Denied::Full => Self::Full,
            Denied::Late if tenant_is_busy => Self::TenantBusy,
            Denied::Late => Self::Late,
        }
    }
}

/// Program to start.
struct Job {
    program: Program,
    environment: Environment,
    limits: Limits,
    host: Box<str>,
    tenant: Tenant,
    /// Held to the end of the program.
    _permits: (Permit<Share>, Permit<(Tenant, Prefix)>),
    starting: Permit<Tenant>,
    shared: Arc<Shared>,
}

impl Job {
    /// Starts the program and stays with it to its end.
    async fn run(self, started: oneshot::Sender<Result<Running, StartError>>) {
        let Self {
            program,
            environment,
            limits,
            starting,
            ..
        } = self;
        let file = program.file().to_owned();
        let failed = |error| Err(StartError::System(file.clone(), error));
        // Without a handler, a SIGCHLD that is ignored, as this process may have been started,
        // would leave no zombies: the group's id could be reused before its last signal.
        let children = match signal(SignalKind::child()) {
            Ok(children) => children,
            Err(error) => return drop(started.send(failed(error))),
        };
        let spawned = spawn_blocking(move || {
            let spawned = spawn::spawn(&program, environment, limits.total);
            drop(starting);
            spawned
        });
        let spawned = spawned
            .await
            .unwrap_or_else(|ended| Err(io::Error::other(ended)));
        let (group, pipes) = match spawned {
            Ok(Spawned { group, pipes }) => (group, pipes),
            Err(error) => return drop(started.send(failed(error))),
        };
        let (watch, running) = match Watch::new(group, pipes, children, limits) {
            Ok(watched) => watched,
            Err((mut group, error)) => {
                spawn_blocking(move || group.end());
                return drop(started.send(failed(error)));
            }
        };
        // Nobody waits: the program ends, since its output is dropped.
        drop(started.send(Ok(running)));
        let complaint = watch.run().await;
        if let Some(text) = complaint {
            let whose = (&*self.host, &self.tenant);
            self.shared
                .log_limits
                .script_complained(whose, &file.to_string_lossy(), &text);
        }
    }
}

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
