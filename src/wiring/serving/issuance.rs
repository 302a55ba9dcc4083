//! The thread of orders: first access and renewal.

use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Context;
use sekisho_certs::Obtain;
use sekisho_issuance::issuer::{Issuer, OnDemand};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::terminal::failure::Result;

/// Issuer with a runtime of its own. What keys and certificates cost must not
/// delay the background runtime, which delivers changes.
pub(super) struct Issuance {
    pub(super) issuer: Arc<Issuer>,
    handle: Handle,
    /// Runtime until its thread is started.
    runtime: Mutex<Option<Runtime>>,
}

impl Issuance {
    pub(super) fn new(issuer: Issuer) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .thread_name("issuance")
            .build()
            .context("the runtime of orders could not be started")?;
        let issuer = Arc::new(issuer);
        Ok(Self {
            issuer,
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// Returns what lookups ask. They are answered once the thread has started.
    pub(super) fn on_demand(&self) -> Arc<dyn Obtain> {
        Arc::new(OnDemand::new(Arc::clone(&self.issuer), self.handle.clone()))
    }

    /// Starts the thread, which ends with the process: any server goes on with the
    /// orders that it leaves.
    pub(super) fn start(&self) -> Result<()> {
        let runtime = self.runtime.lock().ok();
        let Some(runtime) = runtime.and_then(|mut runtime| runtime.take()) else {
            return Ok(());
        };
        let issuer = Arc::clone(&self.issuer);
        let work = move || {
            runtime.spawn(issuer.renew_due());
            runtime.block_on(std::future::pending::<()>());
        };
        let thread = thread::Builder::new().name("issuance".into());
        thread
            .spawn(work)
            .context("the thread of orders could not be started")?;
        Ok(())
    }
}

/// Threads that make RSA keys, two at once, and resolve the names of CAs. More
/// keys would take the cores from the workers.
const BLOCKING: usize = 4;
